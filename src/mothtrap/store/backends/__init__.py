"""Object stores: one file per URL scheme, which is its name (`file` is `local`).

A module has `open_store(url) -> Store`; see `store.objects`.
"""
