"""Fake models to choose from."""

from bot.errors import BadRequestError


class FakeModels:
    """Two models, the first of which answers unless somebody chooses."""

    def named(self, name: str) -> str:
        """Return the model whose name ends like this."""
        found = [model for model in self.names() if model.endswith(name)]
        if not found:
            raise BadRequestError(f"The model {name} may not be asked for here.")
        return found[0]

    def kept(self, name: str) -> str:
        """Return the model that was chosen, or the first."""
        return self.named(name) if name in self.names() else self.names()[0]

    def names(self) -> list[str]:
        """Return both."""
        return ["fake/large", "fake/small"]
