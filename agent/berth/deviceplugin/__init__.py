"""The device plugin door: extended resources offered to kubelet, and what its pods have of them.

`plugin` follows the resources and has an endpoint for each (`endpoint`), which serves kubelet's
five calls (`service`) and keeps itself registered. `podresources` asks kubelet what pods have.
"""
