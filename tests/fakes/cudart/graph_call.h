// The frame of the runtime's functions of graphs, and what the driver calls their nodes.

#pragma once

#include "cudart/copies.h"
#include "cudart/registry.h"

namespace standin {

// In the thread's context.
template <typename Action>
int in_context(truth::Function self, Action &&action) {
    return call(self, [&](const Call &open) -> int {
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        return action(open);
    });
}

// All of it is the driver's.
template <typename... Parameters, typename... Arguments>
int graph_call(truth::Function self, int (*function)(Parameters...), Arguments... arguments) {
    return in_context(
        self, [&](const Call &open) { return on_behalf(open, {}, function, arguments...); });
}

// `go` calls the driver with the node that it is given.
template <typename Go>
int with_kernel(const Call &open, const KernelNode *node, Go &&go) {
    if (node == nullptr) {
        return kInvalidValue;
    }
    Handles handles;
    const int error = find_handles(node->function, handles);
    if (error == kInvalidDeviceFunction) {
        handles.function = node->function;  // a handle
    } else if (error != kSuccess) {
        return error;
    }
    const DriverKernelNode2 same{{handles.function, node->grid, node->block, node->shared_bytes,
                                  node->arguments, node->extra},
                                 nullptr,
                                 nullptr};
    core().delegate(open, {});
    const int result = go(&same);
    return result == kInvalidResourceHandle ? static_cast<int>(kInvalidDeviceFunction) : result;
}

template <typename Go>
int with_copy(const Call &open, const Copy3D *copy, Go &&go) {
    if (copy == nullptr || copy->from_array != nullptr || copy->to_array != nullptr) {
        return kInvalidValue;
    }
    if (!is_direction(copy->direction)) {
        return kInvalidMemcpyDirection;
    }
    const DriverCopy3D same = driver_copy(*copy);
    core().delegate(open, {});
    return go(&same);
}

template <typename Go>
int with_copy(const Call &open, void *to, const void *from, std::size_t bytes, int direction,
              Go &&go) {
    if (!is_direction(direction)) {
        return kInvalidMemcpyDirection;
    }
    if (to == nullptr || from == nullptr || bytes == 0) {
        return kInvalidValue;
    }
    const DriverCopy3D same = driver_copy(to, from, bytes, direction);
    core().delegate(open, {});
    return go(&same);
}

// Between a symbol and `other`, which is at the other end.
template <typename Go>
int with_symbol(const Call &open, const void *symbol, bool to_symbol, const void *other,
                std::size_t bytes, std::size_t offset, int direction, Go &&go) {
    if (direction != kDefault && direction != kDeviceToDevice &&
        direction != (to_symbol ? kHostToDevice : kDeviceToHost)) {
        return kInvalidMemcpyDirection;
    }
    const Variable variable = device_variable(symbol);
    if (variable.start == nullptr) {
        return kInvalidSymbol;
    }
    if (offset > variable.bytes || bytes > variable.bytes - offset) {
        return kInvalidValue;
    }
    if (direction == kDefault) {
        direction = core().is_device_memory(other) ? kDeviceToDevice
                    : to_symbol                    ? kHostToDevice
                                                   : kDeviceToHost;
    }
    void *inside = static_cast<char *>(variable.start) + offset;
    void *end = const_cast<void *>(other);
    return with_copy(open, to_symbol ? inside : end, to_symbol ? end : inside, bytes, direction,
                     go);
}

template <typename Go>
int with_node(const Call &open, RuntimeAnyNode *node, Go &&go) {
    if (node == nullptr) {
        return kInvalidValue;
    }
    DriverAnyNode same;
    same.type = node->type;
    switch (node->type) {
        case kKernelNode:
            return with_kernel(open, &node->of.kernel, [&](const DriverKernelNode2 *kernel) {
                same.of.kernel = *kernel;
                return go(&same);
            });
        case kCopyNode:
            return with_copy(open, &node->of.copy.copy, [&](const DriverCopy3D *copy) {
                same.of.copy = {0, 0, nullptr, *copy};
                return go(&same);
            });
        case kSetNode:
            same.of.set = node->of.set;
            break;
        case kHostNode:
            same.of.host = node->of.host;
            break;
        case kChildNode:
            same.of.child = node->of.child;
            break;
        case kEventWaitNode:
        case kEventRecordNode:
            same.of.event = node->of.event;
            break;
        case kAllocateNode:
            same.of.allocate = node->of.allocate;
            break;
        case kFreeNode:
            same.of.free = node->of.free;
            break;
        default:
            break;
    }
    core().delegate(open, {});
    const int error = go(&same);
    if (node->type == kAllocateNode) {
        node->of.allocate.address = same.of.allocate.address;
    }
    return error;
}

}  // namespace standin
