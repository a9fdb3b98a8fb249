"""Where the plugin's handlers are; Indico wants the plugin's id as the name."""
from indico.web.flask.wrappers import IndicoBlueprint

from indico_zodbrepl.dataplane.plugin.benchmarks import RHBenchmark
from indico_zodbrepl.dataplane.plugin.handlers import RHStatus

blueprint = IndicoBlueprint('zodbrepl', __name__, url_prefix='/zodbrepl')
blueprint.add_url_rule('/status', 'status', RHStatus)
blueprint.add_url_rule(
    '/benchmarks/<name>', 'benchmarks', RHBenchmark, methods=('POST',))
