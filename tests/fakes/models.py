"""Fake models to choose from."""

from bot.errors import BadRequestError, NotAllowedError
from bot.rights.effective import Rights, model_names


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

    def only_talks(self, name: str) -> bool:
        return False

    def names(self) -> list[str]:
        """Return both."""
        return ["fake/large", "fake/small"]

    def admitted(self, chosen: str, rights: Rights) -> str:
        """Return what was chosen, or the first that the rights admit."""
        for name in (self.kept(chosen), *self.names()):
            if not rights.refusal("models", *model_names(*name.split("/", 1))):
                return name
        raise NotAllowedError("No model is left.")
