import io
import os
import re

from setuptools import find_packages, setup

HERE = os.path.dirname(os.path.abspath(__file__))
PINS = os.path.join(HERE, "src", "indico_zodbrepl", "setup")
# What lies beside src in a clone lies in the package once installed; see setup/material.py.
CARRIED = {
    "indico_zodbrepl.files." + package: package.replace(".", "/")
    for package in ["patches", "etc"] + find_packages(HERE, include=["bulkloader", "bulkloader.*"])
}


def version():
    """Return the version that the package names."""
    with io.open(
        os.path.join(HERE, "src", "indico_zodbrepl", "__init__.py"), encoding="utf-8"
    ) as file:
        return str(re.search(r'(?m)^__version__ = "(.+)"$', file.read()).group(1))


def pinned(requirements, names):
    """Return requirements with the exact versions of a file of pins."""
    with io.open(os.path.join(PINS, requirements), encoding="utf-8") as file:
        pins = dict(re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", file.read()))
    versions = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    return ["%s==%s" % (name, versions[name.lower().replace("_", "-")]) for name in names]


setup(
    name="indico_zodbrepl",
    version=version(),
    description="Indico 1.2.2 on replicated ZODB storages",
    license="GPL-3.0-or-later",
    package_dir=dict(CARRIED, **{"": "src"}),
    packages=find_packages("src") + sorted(CARRIED),
    include_package_data=True,
    package_data={
        "": [
            "*.xml",
            "*.conf",
            "*.html",
            "*.css",
            "*.js",
            "*.svg",
            "*.mako",
            "*.tpl",
            "requirements-*.txt",
            "templates/*",
            "static/*",
            "static/vendor/*",
            "translations/*.pot",
            "translations/*/LC_MESSAGES/messages.*",
        ],
        "indico_zodbrepl.files.patches": ["*/*.patch", "*/series"],
        "indico_zodbrepl.files.etc": ["*.conf", "*.cfg"],
    },
    # One distribution for two interpreters: indico_zodbrepl/__init__.py says which part is for which.
    # Python 2.7 finds it through src/*.egg-info, so nothing is required outside of extras.
    python_requires=">=2.7, !=3.0.*, !=3.1.*, !=3.2.*, !=3.3.*, !=3.4.*, !=3.5.*, !=3.6.*, !=3.7.*, !=3.8.*, "
    "!=3.9.*, !=3.10.*",
    install_requires=[],
    extras_require={
        "control": pinned(
            "requirements-3.txt",
            [
                "aiohttp",
                "apispec",
                "click",
                "cryptography",
                "Flask",
                "Flask-Babel",
                "Flask-Limiter",
                "Flask-Login",
                "Flask-WTF",
                "matplotlib",
                "msgspec",
                "prometheus_client",
                "psycopg",
                "psycopg-binary",
                "PyMySQL",
                "rich",
                "supervisor",
                "tenacity",
                "urllib3",
                "waitress",
                "xxhash",
                "ZConfig",
                "zope.interface",
            ],
        ),
        "test": pinned(
            "requirements-test.txt",
            [
                "beautifulsoup4",
                "mfusepy",
                "mypy",
                "playwright",
                "pytest",
                "pytest-bdd",
                "pytest-xdist",
                "requests",
                "ruff",
                "schemathesis",
                "types-PyMySQL",
            ],
        ),
    },
    entry_points={
        "console_scripts": ["zodbrepl = indico_zodbrepl.cli:main"],
        "indico.ext_types": ["zodbrepl = indico_zodbrepl.dataplane.indico.plugin"],
        "zc.buildout": [
            "default = indico_zodbrepl.setup.recipe:Recipe",
        ],
    },
    zip_safe=False,
)
