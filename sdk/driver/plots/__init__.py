"""What a person would rather look at: the drawn graph of a model, its memory, profiles, and what notebooks show."""
