"""Object stores: one file per URL scheme, named after the scheme (`file` is `local`).

A module has `open_store(url) -> Store`; see `store.objects`.
"""
