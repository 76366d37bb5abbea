# SPDX-License-Identifier: Apache-2.0
"""What is refused: the exception's class, the op, the user's line and the way out, row by row."""

import contextlib
import copy
import io
import pickle
import re
import time
import traceback

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from remote_support import here, shared_owner

import sojourn


@pytest.fixture
def device():
    return shared_owner().device


@pytest.fixture
def x(device):
    return torch.arange(6.0, device=device).reshape(2, 3)


VALUES = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "bool": lambda x: bool(x.sum()),
    "complex": lambda x: complex(x.sum()),
    "if": lambda x: 1 if x.sum() > 0 else 2,
    "and": lambda x: (x.sum() > 0) and True,
    "while": lambda x: [1 for _ in iter(lambda: bool(x.sum() < 0), False)],
    "range": lambda x: range(x[0, 0].long()),
    "in": lambda x: 3.0 in x,
    "slice bounds": lambda x: x[: x[0, 1].long()],
    "list index": lambda x: [1, 2, 3][x[0, 1].long()],
    "round": lambda x: round(float(x.sum()), 2),
    "format with a spec": lambda x: f"{x.sum():.3f}",
    "percent format": lambda x: "%.3f" % x.sum(),
    "max of Python": lambda x: max(x[0, 0], x[0, 1]),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x, x, x + 1),
    "nonzero": lambda x: x.nonzero(),
    "where with one argument": lambda x: torch.where(x > 0),
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "boolean index": lambda x: x[x > 0],
    "bincount": lambda x: x[0].long().bincount(),
    "repeat_interleave": lambda x: x.repeat_interleave(torch.tensor([1, 2], device=x.device), dim=0),
    "one_hot without classes": lambda x: F.one_hot(x.long()),
    "check_errors": lambda x: torch.linalg.cholesky_ex(x @ x.mT, check_errors=True),
    "equal": lambda x: torch.equal(x, x + 1),
    "allclose": lambda x: torch.allclose(x, x + 1),
    "argwhere": lambda x: torch.argwhere(x),
    "trunc_normal_": lambda x: torch.nn.init.trunc_normal_(x.clone()),
    "tensor of tensors": lambda x: torch.tensor([x[0, 0], 1.0]),
    "LBFGS": lambda x: torch.optim.LBFGS([x.detach().requires_grad_()]).step(lambda: (x.detach() * 2).requires_grad_().sum()),
    "gradcheck": lambda x: torch.autograd.gradcheck(torch.sin, (x.double().requires_grad_(),)),
}  # fmt: skip


# Also outside of steps, where values may be read: ops that would look at many.
ALWAYS = ["check_errors"]


#: What torch's own code asks for: there is no line of the user's that could publish.
BY_TORCH = {"gaussian_nll_loss", "trunc_normal_", "LBFGS", "gradcheck"}


@pytest.mark.parametrize(
    "name, inside", [*((name, True) for name in VALUES), *((name, False) for name in ALWAYS)], ids=str
)
def test_values_are_refused(x, name, inside):
    with sojourn.step() if inside else contextlib.nullcontext():
        with pytest.raises(sojourn.ValueNeeded) as caught:
            VALUES[name](x)
    text = str(caught.value)
    assert "aten::" in text and f"at {__file__}:" in text, text
    if name in BY_TORCH:
        assert re.search(r"\(torch/\S+\.py:\d+\)", text) and "outside of explicit steps" in text, text
        assert "publish" not in text, text
    else:
        assert any(way in text for way in ("publish", "torch.where", "mask", "use ", "pass ", "compare")), text
    # The line is that of the lambda above.
    line = int(text.split(f"at {__file__}:")[1].split(":")[0].split(" ")[0])
    assert name in open(__file__).read().splitlines()[line - 1], (name, line, text)


LEAVING = {
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "to with dtype": lambda x: x.to("cpu", torch.float64),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "detached numpy": lambda x: x.detach().numpy(),
    "asarray": lambda x: np.asarray(x),
    "array": lambda x: np.array(x),
    "copy into CPU": lambda x: torch.zeros(2, 3).copy_(x),
    "setitem into CPU": lambda x: torch.zeros(2, 3).__setitem__(0, x[0]),
    "save": lambda x: torch.save(x, io.BytesIO()),
    "save a state dict": lambda x: torch.save({"w": x}, io.BytesIO()),
    "pickle": lambda x: pickle.dumps(x),
    "add_ of a CPU tensor": lambda x: torch.zeros(2, 3).add_(x),
    "out on CPU": lambda x: torch.add(x, x, out=torch.zeros(2, 3)),
    "save_on_cpu": lambda x: save_on_cpu(x),
}


def save_on_cpu(x):
    with torch.autograd.graph.save_on_cpu():
        return x.clone().requires_grad_().exp()


@pytest.mark.parametrize("name", LEAVING)
def test_leaving_is_refused(x, name):
    sojourn.flush()
    before = sojourn.counters()["round_trips"]
    with sojourn.step():
        with pytest.raises(sojourn.Refused, match="sojourn.publish"):
            LEAVING[name](x)
    for name in ("add_ of a CPU tensor", "out on CPU"):  # outside of steps, too
        with pytest.raises(sojourn.Refused, match="sojourn.publish"):
            LEAVING[name](x)
    sojourn.flush()
    assert sojourn.counters()["round_trips"] <= before + 2  # what was recorded on the way


MEMORY = {
    "from_dlpack": lambda x: torch.from_dlpack(x),
    "to_dlpack": lambda x: torch.to_dlpack(x),
    "to_dlpack of utils": lambda x: torch.utils.dlpack.to_dlpack(x),
    "numpy from_dlpack": lambda x: np.from_dlpack(x),
    "share_memory_": lambda x: x.share_memory_(),
    "pin_memory": lambda x: x.pin_memory(),
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_refused(x, name):
    with pytest.raises(sojourn.Unsupported, match="no memory in this process.*publish"):
        MEMORY[name](x)


def test_ctc_loss_with_lengths_at_the_owner(x, device):
    lengths = torch.tensor([2], device=device)
    with sojourn.step(), pytest.raises(sojourn.Refused, match="sojourn.publish"):
        F.ctc_loss(x[None].log_softmax(2).transpose(0, 1), x[:1].long(), lengths, lengths)


@pytest.mark.filterwarnings("ignore:torch.compile does nothing")
def test_torch_compile(x):
    """Frames with remote tensors run as they are; a tensor that torch finds elsewhere is told of the way out."""
    torch.testing.assert_close(torch.compile(lambda t: t * 2)(x).cpu(), x.cpu() * 2)
    hidden = {"deep": [[{"in": x}]]}
    with pytest.raises(RuntimeError, match="no memory in this process.*leave out torch.compile"):
        torch.compile(lambda tree: tree["deep"][0][0]["in"] * 2)(hidden)


UNSUPPORTED = {
    "sparse": lambda x: x.to_sparse(),
    "sparse embedding": lambda x: (
        F.embedding(x.long(), torch.ones(9, 2, device=x.device).requires_grad_(), sparse=True).sum().backward()
    ),
    "quantize": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    "set_": lambda x: x.set_(),
    "complex half": lambda x: x.to(torch.complex32),
    "an op without complex": lambda x: torch.erf(x.to(torch.complex64)),
    "no rule": torch.hash_tensor,
    "a composition that reads memory": lambda x: F.grouped_mm(
        torch.ones(6, 4, device=x.device),
        torch.ones(2, 4, 8, device=x.device),
        offs=torch.ones(2, device=x.device).int(),
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported(x, name):
    with pytest.raises(sojourn.Unsupported) as caught:
        UNSUPPORTED[name](x)
    assert isinstance(caught.value, (NotImplementedError, RuntimeError)) and not isinstance(caught.value, TypeError)
    print(name, caught.value)


def test_as_strided_outside_the_base(x):
    with pytest.raises(RuntimeError, match="(?i)out of bounds|outside"):
        x.as_strided((4, 4), (4, 1))


def test_foreign_ops(device):
    library = torch.library.Library("sojourn_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    assert torch.ops.sojourn_test.twice(torch.ones(2)).sum() == 4
    with pytest.raises(sojourn.Unsupported, match="sojourn_test::twice.*only ATen ops"):
        torch.ops.sojourn_test.twice(torch.ones(2, device=device))


def test_mixed_tensors(x, device):
    cpu = torch.ones(2, 3)
    for call in (
        lambda: x + cpu,
        lambda: cpu + x,
        lambda: torch.where(x > 0, x, cpu),
        lambda: torch.cat([x, cpu]),
        lambda: x @ cpu.t(),
        lambda: F.linear(x, cpu),
    ):
        with pytest.raises(sojourn.Error, match=r"move it first: tensor.to\(owner.device\)") as caught:
            call()
        assert here(-2).rsplit(":", 1)[0] in str(caught.value)
    with pytest.raises(sojourn.Refused, match="publish"):
        cpu.add_(x)
    # A 0-dim CPU tensor is a number and may meet anything.
    assert (x + torch.tensor(2.0)).device == device


def test_tensors_of_two_owners(x):
    with sojourn.local() as other:
        y = torch.ones(2, 3, device=other.device)
        for call in (lambda: x + y, lambda: y @ x.t(), lambda: torch.cat([x, y]), lambda: x.copy_(y)):
            with pytest.raises(sojourn.Error, match=r"two places.*sojourn\.parties\("):
                call()
        with sojourn.step(), pytest.raises(sojourn.Refused, match="publish it at the first owner"):
            x.to(other.device)
        assert torch.equal(x.to(other.device).cpu(), x.cpu())  # a read and an upload
        # Each on its own still works.
        assert sojourn.publish(y.sum()) == 6 and sojourn.publish(x.sum()) == 15


BAD_ARGUMENTS = {
    "broadcast": lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
    "dim": lambda d: torch.ones(2, 3, device=d).sum(5),
    "dim of softmax": lambda d: torch.ones(2, 3, device=d).softmax(2),
    "matmul": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "mm ranks": lambda d: torch.mm(torch.ones(2, device=d), torch.ones(2, 3, device=d)),
    "reshape": lambda d: torch.ones(2, 3, device=d).reshape(4, 2),
    "view": lambda d: torch.ones(2, 3, device=d).t().view(6),
    "cat shapes": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)]),
    "in place dtype": lambda d: torch.ones(2, dtype=torch.long, device=d).add_(0.5),
    "in place shape": lambda d: torch.ones(2, device=d).add_(torch.ones(3, 2, device=d)),
    "mean of integers": lambda d: torch.ones(2, dtype=torch.long, device=d).mean(),
    "neg of bool": lambda d: -torch.ones(2, dtype=torch.bool, device=d),
    "sub of bool": lambda d: torch.ones(2, dtype=torch.bool, device=d) - torch.ones(2, dtype=torch.bool, device=d),
    "select": lambda d: torch.ones(2, 3, device=d)[4],
    "narrow": lambda d: torch.ones(5, device=d).narrow(0, 3, 4),
    "expand": lambda d: torch.ones(2, 3, device=d).expand(2, 4),
    "squeeze dim": lambda d: torch.ones(2, device=d).squeeze(3),
    "permute": lambda d: torch.ones(2, 3, device=d).permute(0, 0),
    "conv channels": lambda d: F.conv2d(torch.ones(1, 3, 5, 5, device=d), torch.ones(2, 4, 3, 3, device=d)),
    "gather rank": lambda d: torch.ones(2, 3, device=d).gather(0, torch.zeros(2, dtype=torch.long, device=d)),
    "index dtype": lambda d: torch.ones(3, device=d).index_select(0, torch.zeros(2, device=d)),
    "embedding dtype": lambda d: F.embedding(torch.zeros(2, device=d), torch.ones(3, 2, device=d)),
    "int power": lambda d: torch.ones(2, dtype=torch.long, device=d) ** -1,
    "bool power": lambda d: torch.ones(2, dtype=torch.bool, device=d) ** torch.ones(2, dtype=torch.bool, device=d),
    "grad of integers": lambda d: torch.ones(2, dtype=torch.long, device=d).requires_grad_(),
    "backward twice": lambda d: [t.backward() for t in [torch.ones(2, device=d).requires_grad_().exp().sum()] * 2],
    "backward of no scalar": lambda d: torch.ones(2, device=d).requires_grad_().exp().backward(),
    "unknown argument": lambda d: torch.ones(2, device=d).sum(dims=1),
    "cross entropy target": lambda d: F.cross_entropy(torch.ones(2, 3, device=d), torch.zeros(3, dtype=torch.long, device=d)),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_fail_as_in_eager(device, name):
    failures = []
    for where in ("cpu", device):
        with pytest.raises(Exception) as caught:
            BAD_ARGUMENTS[name](where)
        failures.append(caught.value)
    eager, ours = failures
    assert type(ours) is type(eager), (repr(eager), repr(ours))
    assert first_line(ours) == first_line(eager)


def first_line(failure):
    return (
        str(failure)
        .splitlines()[0]
        .replace("owner:0", "cpu")
        .replace("ownerFloatType", "torch.FloatTensor")
        .replace("owner", "CPU")
    )


def test_binary_operators_never_say_unsupported_operand(x):
    """Tensor's operators turn a TypeError into "unsupported operand"; none of ours is one."""
    cpu = torch.ones(2, 3)
    for operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "eq", "lt"):
        for a, b in ((x, cpu), (cpu, x)):
            with pytest.raises(sojourn.Error, match=r"a cpu tensor of shape \[\d, \d\] meets remote tensors"):
                getattr(__import__("operator"), operator)(a, b.t() if operator == "matmul" else b)


def test_repr_within_a_step_shows_shape_never_data(device):
    secret = torch.full((2, 2), 1234.5).to(device)
    with sojourn.step():
        check_shown(secret, device)
    # Also of tensors that have no value any more.
    with pytest.raises(KeyError):
        with sojourn.step():
            lost = secret * 3
            raise KeyError("stop")
    assert "shape=(2, 2)" in repr(lost)


def check_shown(secret, device):
    shown = [
        repr(secret), str(secret), f"{secret}", "%s" % secret, repr([secret]), repr(torch.nn.Parameter(secret)),
        repr(secret * 2), repr(secret.t()), repr(secret.requires_grad_().exp()), repr(torch.empty(0, device=device)),
        repr(secret.detach().long()), repr({"a": secret.detach()[0, 0]}),
    ]  # fmt: skip
    for text in shown:
        assert "1234" not in text and "2469" not in text and "owner:" in text, text
    with contextlib.redirect_stdout(io.StringIO()) as out:
        print(secret, torch.nn.Linear(2, 2, device=device).weight)
    assert "1234" not in out.getvalue() and "at the owner" in out.getvalue()
    module = torch.nn.Linear(2, 2, device=device)
    assert "Linear(in_features=2" in repr(module) and "at the owner" in repr(module.state_dict())


def test_deepcopy_works_and_copies(device):
    x = torch.ones(3, device=device, requires_grad=True)
    y = copy.deepcopy(x)
    with torch.no_grad():
        y.mul_(2)
    assert sojourn.publish([x, y])[0].sum() == 3 and y.requires_grad
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).to(device)
    twin = copy.deepcopy(model)
    assert twin[0].weight is not model[0].weight and twin[0].weight.device == device


def test_detect_anomaly(device):
    x = torch.ones(3, device=device, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        (x.exp() * 2).sum().backward()
    assert x.grad is not None
    with torch.autograd.detect_anomaly(check_nan=True):
        (x.exp() * 2).sum().backward()  # values may be read, many
        with sojourn.step(), pytest.raises(sojourn.ValueNeeded, match="test_refusals.py"):
            (x.exp() * 2).sum().backward()


# Tables and owners.


def test_missing_table_and_column():
    with sojourn.local() as owner:
        owner.register("people", {"age": np.arange(4), "y": np.zeros(4, dtype=np.int64)}, policy="open")
        with pytest.raises(sojourn.Error, match="no dataset 'poeple'.*'people'"):
            owner.dataset("poeple")
        table = owner.dataset("people")
        for call in (lambda: table["agee"], lambda: table.rows(features=["agee"])):
            with pytest.raises(sojourn.Error, match="agee.*age"):
                call()


@pytest.mark.parametrize("runtime", ["native", "numpy"])
def test_registering(runtime):
    with sojourn.local(runtime=runtime) as owner:
        good = {"a": np.arange(3.0)}
        owner.register("t", good, policy="open")
        with pytest.raises(sojourn.Error, match="(?i)'?t'?.*(already|registered|exists)"):
            owner.register("t", good, policy="open")
        for bad in (np.nan, np.inf):
            with pytest.raises(sojourn.Error, match="(?is)'?a'?.*(nan|inf|finite|missing)"):
                owner.register("bad", {"a": np.array([1.0, bad])}, policy="open")
        with pytest.raises(sojourn.Error, match="policy"):
            owner.register("p", good, policy="secret")
        with pytest.raises(sojourn.Error, match="(?i)dimension|one entry per row"):
            owner.register("d", {"a": np.zeros(())}, policy="open")
        with pytest.raises(sojourn.Error, match="no such file"):
            owner.register("file", "/nowhere/file.csv", policy="open")
        with pytest.raises(sojourn.Error, match="(?i)length|rows"):
            owner.register("l", {"a": np.zeros(2), "b": np.zeros(3)}, policy="open")
        assert [table.name for table in owner.datasets()] == ["t"]


@pytest.mark.alone
def test_an_owner_that_is_not_there(tmp_path):
    start = time.monotonic()
    for address in (f"ipc://{tmp_path}/nobody.sock", "nonsense", "tcp://127.0.0.1:9"):
        with pytest.raises(sojourn.ConnectionLost):
            sojourn.connect(address, timeout=5, plain_tcp=True)
    assert time.monotonic() - start < 10


def test_private_values_stay(device):
    with sojourn.local() as owner:
        bounds = {"a": (0, 5), "y": (0, 4)}
        table = owner.register("p", {"a": np.arange(5.0), "y": np.arange(5)}, policy="private", bounds=bounds)
        column = table["a"]
        place = here(1)
        total = column.sum()
        with pytest.raises(sojourn.Refused, match="private") as caught:
            sojourn.publish(total)
        assert place in str(caught.value), str(caught.value)
        # What never met the table may leave, also afterwards.
        assert sojourn.publish(torch.ones(3).to(owner.device).sum()) == 3


def test_version_mismatch():
    with pytest.raises(sojourn.VersionMismatch, match="(?i)version|protocol"):
        connect_as(other_version=99)


def connect_as(other_version):
    """A connection whose client says another protocol version: the same bytes, one field changed."""
    import _sojourn
    from sojourn_wire.Hello import Hello
    from sojourn_wire.Request import Request

    embedded = _sojourn.EmbeddedOwner()

    def handle(request):
        data = bytearray(request)
        body = Request.GetRootAs(data, 0).Body()
        hello = Hello()
        hello.Init(body.Bytes, body.Pos)
        offset = hello._tab.Offset(4)
        data[hello._tab.Pos + offset] = other_version
        return embedded.handle(bytes(data))

    return _sojourn.Session(handle, "other version")


def test_garbage_replies_are_errors():
    import _sojourn

    for reply in (b"", b"hello", bytes(64)):
        with pytest.raises(sojourn.OwnerError, match="not a Sojourn message"):
            _sojourn.Session(lambda request, reply=reply: reply, "garbage")


def test_errors_at_the_owner_name_the_line_of_the_user(device):
    """The traceback of a refusal ends in the user's statement."""
    try:
        torch.ones(2, device=device).sum().item()
    except sojourn.ValueNeeded as failure:
        frames = traceback.extract_tb(failure.__traceback__)
        assert frames[-1].filename == __file__ and "item()" in frames[-1].line


def test_support_hierarchy():
    assert issubclass(sojourn.Unsupported, NotImplementedError) and issubclass(sojourn.Error, RuntimeError)
    for name in ("ValueNeeded", "Refused", "Unsupported", "OwnerError", "ConnectionLost", "VersionMismatch"):
        assert issubclass(getattr(sojourn, name), sojourn.Error) and not issubclass(getattr(sojourn, name), TypeError)
