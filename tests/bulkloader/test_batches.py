"""How many events a transaction of the bulk way has when nobody says it."""
import pytest

from bulkloader.bulk.making import BulkWay


@pytest.mark.parametrize('data_file, there, wanted', [
    ('a file', 0, 2000), ('a file', 16000, 2000), ('a file', 80000, 10000),
    (None, 0, 1000), (None, 80000, 1000)])
def test_it_grows_with_the_events_that_are_there_in_a_file_of_ones_own(data_file, there, wanted):
    way = object.__new__(BulkWay)
    way._data_file = data_file
    assert wanted == way.usual_batch(there)
