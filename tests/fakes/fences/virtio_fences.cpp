// virtio_fences N | --look: DMA fences of the driver virtio_gpu, which makes a fence without a
// number and gives it one when it emits it. Without such a device it ends with 3, and with --look
// it ends otherwise with 0. Else it makes N resources at once, each of which has a fence, waits
// until the device is done with them, lets go of them, and prints "fences N".

#include <drm/drm.h>
#include <drm/virtgpu_drm.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "fences/cards.h"

using fences::give_up;
using fences::moment;
using fences::open_card;

namespace {

std::uint32_t make_resource(int card) {
    drm_virtgpu_resource_create create{};
    create.target = 2;  // PIPE_TEXTURE_2D
    create.format = 1;  // VIRTIO_GPU_FORMAT_B8G8R8A8_UNORM
    create.bind = 2;    // PIPE_BIND_RENDER_TARGET
    create.width = create.height = 16;
    create.depth = create.array_size = 1;
    if (::ioctl(card, DRM_IOCTL_VIRTGPU_RESOURCE_CREATE, &create) != 0) {
        give_up("DRM_IOCTL_VIRTGPU_RESOURCE_CREATE");
    }
    return create.bo_handle;
}

// Asks until the fence is signaled: a wait would be one more event.
void await(int card, std::uint32_t handle) {
    drm_virtgpu_3d_wait wait{};
    wait.handle = handle;
    wait.flags = VIRTGPU_WAIT_NOWAIT;
    for (int i = 0; ::ioctl(card, DRM_IOCTL_VIRTGPU_WAIT, &wait) != 0; i++) {
        if (errno != EBUSY || i == 10'000) {
            give_up("DRM_IOCTL_VIRTGPU_WAIT");
        }
        moment();
    }
}

void close_resource(int card, std::uint32_t handle) {
    drm_gem_close close{};
    close.handle = handle;
    ::ioctl(card, DRM_IOCTL_GEM_CLOSE, &close);
}

}  // namespace

int main(int argc, char **argv) {
    const int card = open_card("virtio_gpu");
    if (card < 0) {
        std::fprintf(stderr, "no virtio_gpu\n");
        return 3;
    }
    const std::string what = argc == 2 ? argv[1] : "0";
    if (what == "--look") {
        return 0;
    }
    std::vector<std::uint32_t> handles(std::stoul(what));
    for (std::uint32_t &handle : handles) {
        handle = make_resource(card);
    }
    for (const std::uint32_t handle : handles) {
        await(card, handle);
        close_resource(card, handle);
    }
    std::printf("fences %zu\n", handles.size());
    return 0;
}
