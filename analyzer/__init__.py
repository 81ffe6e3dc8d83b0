"""Is a PyTorch model ready for torch.compile?"""
