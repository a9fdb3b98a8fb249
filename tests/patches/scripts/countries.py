"""Prints whether the lists of countries were read by an import, and what they answer."""
import json
import sys

from MaKaC.webinterface.common.countries import CountryHolder

at_import = 'pycountry' in sys.modules
print json.dumps({
    'at_import': at_import,
    'answers': [CountryHolder.getCountryById('CH'), CountryHolder.getCountryById('AN'),
                CountryHolder.getCountryById('no country'), CountryHolder.getCountries(),
                CountryHolder.getCountrySortedKeys(), sorted(CountryHolder.getCountryList())],
})
