"""What the standalone worker carries: options, targets, input conventions, plan code and events."""
