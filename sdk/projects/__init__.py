"""Projects: complete folders for firmware around a model, each kind of them templates and one small record."""
