from setuptools import find_packages, setup

setup(
    name='indico_zodbrepl',
    version=next(line.split('"')[1] for line in open('src/indico_zodbrepl/__init__.py') if line.startswith('__version__')),
    description='Indico 1.2.2 on replicated ZODB storages',
    license='GPL-3.0-or-later',
    package_dir={'': 'src'},
    packages=find_packages('src'),
    include_package_data=True,
    package_data={'': ['*.xml', '*.conf', '*.html', '*.css', '*.js', '*.svg', '*.mako', '*.tpl',
                       'templates/*', 'static/*', 'translations/*.pot', 'translations/*/LC_MESSAGES/messages.*']},
    # One distribution for two interpreters: indico_zodbrepl/__init__.py says which part is for which.
    # Python 2.7 finds it through src/*.egg-info, so nothing is required outside of extras.
    python_requires='>=2.7, !=3.0.*, !=3.1.*, !=3.2.*, !=3.3.*, !=3.4.*, !=3.5.*, !=3.6.*, !=3.7.*, !=3.8.*, '
                    '!=3.9.*, !=3.10.*',
    install_requires=[],
    extras_require={
        'control': ['aiohttp', 'apispec', 'click', 'Flask', 'Flask-Babel', 'Flask-Limiter', 'Flask-Login', 'Flask-WTF', 'matplotlib', 'msgspec', 'prometheus_client',
                    'psycopg', 'psycopg-binary', 'PyMySQL', 'rich', 'supervisor', 'tenacity', 'waitress', 'ZConfig', 'zope.interface'],
        'test': ['beautifulsoup4', 'mypy', 'playwright', 'pytest', 'pytest-bdd', 'pytest-xdist', 'requests', 'ruff', 'schemathesis', 'types-PyMySQL'],
        'recipe': ['pip', 'virtualenv', 'zc.buildout', 'zc.recipe.egg'],
    },
    entry_points={
        'console_scripts': ['zodbrepl = indico_zodbrepl.cli:main'],
        'indico.ext_types': ['zodbrepl = indico_zodbrepl.dataplane.indico.plugin'],
        'zc.buildout': [
            'python27 = indico_zodbrepl.setup.python27:Recipe',
            'indico = indico_zodbrepl.setup.indico:Recipe',
            'scripts = indico_zodbrepl.setup.control_scripts:Recipe',
        ],
    },
    zip_safe=False,
)
