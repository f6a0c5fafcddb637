"""The library's datasets, one module each (or one per publisher's file).

Every function takes ``data_dir`` and ``split`` as :func:`disentangle_jax.data.load`
does; its docstring lists its further options.
"""
