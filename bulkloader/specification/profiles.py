"""Parameters of known Indicos (pure)."""
from bulkloader.specification.parameters import Parameters, default_categories

# A report of 2011 tells of 85,000 conferences in 5 GiB, so 63.2 kB each. By the figures of
# `sizes` an empty one with two chairs takes 47.5 kB and a contribution with its people 6.2 kB,
# which leaves room for 2.5 of them.
REPORT_2011 = Parameters(85000, 'mean:2.5,max:40', default_categories(85000), 500, 1)

PROFILES = {'report-2011': REPORT_2011}
