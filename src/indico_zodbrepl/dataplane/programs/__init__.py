"""Small programs of the data plane, and what several programs share."""
