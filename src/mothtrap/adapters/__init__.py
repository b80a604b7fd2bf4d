"""One framework in each module or package."""
