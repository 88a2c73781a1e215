"""The language server, `axon lsp`: what `axon.tools.editor` knows, said in the Language Server Protocol."""
