#!/usr/bin/env python3
"""Times of single layers that rules of remedies rest on (docs/remedies.md), on a machine with one GPU, about a minute:

    layers.py

Interpolation in NCHW and NHWC, batch norm in 16 bits by channels, convolutions of volumes by channels, batched products
by the width of their rows, copies that turn their tensor. One line each, tab-separated: microseconds forward and backward
(of products and copies two forms). Last, the batch norms of eight networks under autocast: milliseconds in NCHW and NHWC."""
import sys
import torch
import torch.nn.functional as F
import torchvision


def timed(call, repeats=10):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / repeats * 1e3


def both(make, forward):
    x = make()
    x.requires_grad_(True)
    with torch.no_grad():
        ahead = timed(lambda: forward(x))
    y = forward(x)
    g = torch.randn_like(y)
    return ahead, timed(lambda: torch.autograd.grad(y, x, g, retain_graph=True))


def norms_ms(net, batch, form):
    """The kernels of a training step's batch norms."""
    model = getattr(torchvision.models, net)().cuda().to(memory_format=form)
    x = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=form)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).sum()
        loss.backward()
    for _ in range(2):
        step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    kernels = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return sum(kernel.device_time_total for kernel in kernels if "norm" in kernel.name or "bn_" in kernel.name) / 1e3


def line(*values):
    print("\t".join(f"{v:.1f}" if isinstance(v, float) else str(v) for v in values), flush=True)


def main():
    print(torch.cuda.get_device_name(), torch.__version__)
    for mode in ("bilinear", "nearest", "bicubic"):
        for n, c, h, scale in ((16, 21, 48, 8), (8, 256, 32, 2), (8, 64, 64, 4), (32, 3, 112, 2), (16, 128, 28, 2)):
            for dtype in (torch.float32, torch.bfloat16):
                for layout in (torch.contiguous_format, torch.channels_last):
                    make = lambda: torch.randn(n, c, h, h, device="cuda", dtype=dtype).to(memory_format=layout)
                    call = lambda x: F.interpolate(x, scale_factor=scale, mode=mode, align_corners=None if mode == "nearest" else False)
                    try:
                        a, b = both(make, call)
                    except RuntimeError as error:
                        line("interpolate", mode, str(error)[:60])
                        continue
                    line("interpolate", mode, f"{n}x{c}x{h}x{scale}", dtype, "NHWC" if layout == torch.channels_last else "NCHW", a, b)
    for shape in ((128, 32, 56, 56), (128, 64, 56, 56), (32, 128, 56, 56), (32, 256, 56, 56), (32, 512, 28, 28), (32, 2048, 14, 14),
                  (16, 32, 8, 56, 56), (16, 64, 8, 56, 56), (16, 256, 4, 28, 28)):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            w = torch.ones(shape[1], device="cuda", requires_grad=True)
            z = torch.zeros(shape[1], device="cuda", requires_grad=True)
            call = lambda x: F.batch_norm(x, None, None, w, z, True)
            line("batch_norm", "x".join(map(str, shape)), dtype, *both(lambda: torch.randn(shape, device="cuda", dtype=dtype), call))
    torch.backends.cudnn.allow_tf32 = True
    for c in (1, 3, 4, 8, 16, 64):
        for dtype in (torch.float32, torch.bfloat16):
            w = torch.randn(64, c, 3, 7, 7, device="cuda", dtype=dtype)
            line("conv3d", c, dtype, *both(lambda: torch.randn(8, c, 8, 112, 112, device="cuda", dtype=dtype),
                                           lambda x: F.conv3d(x, w, stride=(1, 2, 2), padding=(1, 3, 3))))
    for n in (32, 48, 49, 50, 52, 56, 64):
        for dtype in (torch.float32, torch.bfloat16):
            torch.backends.cuda.matmul.allow_tf32 = True
            a, b = (torch.randn(4096, n, 32, device="cuda", dtype=dtype), torch.randn(4096, 32, n, device="cuda", dtype=dtype))
            p = torch.randn(4096, n, n, device="cuda", dtype=dtype)
            line("bmm", n, dtype, timed(lambda: torch.bmm(a, b)), timed(lambda: torch.bmm(p, a)))
    x = torch.randn(64, 56, 56, 96, device="cuda")
    for dtype in (torch.float32, torch.bfloat16):
        y = x.to(dtype)
        for order in ((0, 3, 1, 2), (0, 2, 1, 3), (0, 1, 3, 2)):
            line("turned copy", order, dtype, timed(lambda: y.permute(order).contiguous()), timed(lambda: y.clone()))
    for net, batch in (("resnet50", 64), ("resnet18", 128), ("densenet121", 64), ("mobilenet_v3_large", 128),
                       ("efficientnet_b0", 128), ("vgg16_bn", 64), ("regnet_y_3_2gf", 64), ("wide_resnet50_2", 64)):
        line("norms", net, batch, *(norms_ms(net, batch, form) for form in (torch.contiguous_format, torch.channels_last)))


if __name__ == "__main__":
    sys.exit(main())
