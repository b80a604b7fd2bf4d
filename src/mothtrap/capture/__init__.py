"""The recorder of a step: plan, budgets, copies, step sampling."""
