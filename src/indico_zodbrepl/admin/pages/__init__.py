"""The views, a blueprint for each part of the page."""
