"""longdoc: tag and classify long documents with PyTorch Lightning. Names load on first use."""
