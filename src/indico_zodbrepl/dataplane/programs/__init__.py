"""Small programs of the data plane, and code that several programs share."""
