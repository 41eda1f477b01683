"""What a person would rather look at: the model as a drawn graph, profiles, and what notebooks show."""
