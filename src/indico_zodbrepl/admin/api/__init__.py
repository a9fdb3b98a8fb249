"""The API for programs: objects, bodies, errors and the OpenAPI description."""
