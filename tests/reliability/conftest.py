from tests.app.conftest import composed, corpus

__all__ = ["composed", "corpus"]
