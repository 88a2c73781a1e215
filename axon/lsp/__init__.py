"""The language server, `axon lsp`: what `axon.editor` knows, said in the Language Server Protocol."""
