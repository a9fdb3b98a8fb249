"""The pages: a module with a blueprint for each kind."""
