"""What is needed to do a step again, and to say where two trainings part."""
