"""Train by a recipe: python train.py recipe=legal_ner."""

from longdoc.app.hydra_app import main

if __name__ == "__main__":
    main()
