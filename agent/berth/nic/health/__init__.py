"""What speaks against a NIC: pure rules over what was seen of its link and of its PCI function.

`post` says where a NIC should be, `sight` what was seen of it; `link` and `function` judge by both
and by what they remember, and give what is to be remembered. Time comes in, in seconds that only
go forwards.

Source: network.md §7.
"""
