"""The recorder of a step: plan, budgets, copies, rests."""
