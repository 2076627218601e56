"""Every device by itself at a parameter server, as Distributed TensorFlow trained: what the hybrid is compared with.

    device  Lease  [Compute Update]   Push the step of plain SGD   Pull  Adopt   Lease ...
    server  momentum, or what the rule says, on the steps of one version

``server_sync``: a version has a step of each device, and all wait for it. ``server_async``: each step is a version.
"""

from paceline.strategies.base import Layout
from paceline.strategies.hybrid import Hybrid


class ServerAsync(Hybrid):
    """No device waits for another."""

    about = "a baseline: each device pushes its gradients to a server as they come"
    layout = Layout(jobs="devices", server=True, gradients=True)
    baseline = True


class ServerSync(Hybrid):
    """All wait for all."""

    about = "a baseline: each device pushes its gradients to a server, which waits for all of them"
    layout = Layout(jobs="devices", server=True, gradients=True, in_step=True)
    baseline = True
