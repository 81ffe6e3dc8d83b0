"""`tcready mcp`: what an assistant may ask of tcready over the Model Context Protocol, answered in a few lines."""
