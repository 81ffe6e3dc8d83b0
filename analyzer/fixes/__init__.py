"""Changes that let Dynamo trace the code: proposed, verified and applied."""
