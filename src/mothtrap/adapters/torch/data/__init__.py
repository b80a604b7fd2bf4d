"""What is trained on: loaders, what they give, what models are called with."""
