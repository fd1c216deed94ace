#include "driver/node_work.h"

#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/shapes.h"

namespace standin {

int kernel_work(const DriverKernelNode *parameters, Work &work) {
    if (parameters == nullptr) {
        return kInvalidValue;
    }
    auto name = function_name(parameters->function);
    if (!name) {
        return kInvalidResourceHandle;
    }
    if (!is_launch_shape(parameters->grid, parameters->block)) {
        return kInvalidValue;
    }
    work.type = kKernelNode;
    work.kernel = *std::move(name);
    work.grid = parameters->grid;
    work.block = parameters->block;
    return kSuccess;
}

int kernel_work(const DriverKernelNode2 *parameters, Work &work) {
    if (parameters == nullptr) {
        return kInvalidValue;
    }
    DriverKernelNode same = parameters->first;
    if (same.function == nullptr) {
        same.function = parameters->kernel;
    }
    return kernel_work(&same, work);
}

int copy_work(const DriverCopy3D *copy, std::optional<truth::CopyKind> known, Work &work) {
    if (copy == nullptr) {
        return kInvalidValue;
    }
    work.type = kCopyNode;
    work.is_flat = copy->height == 1 && copy->depth == 1;
    const int error = measure_copy(*copy, work.direction, work.bytes);
    work.direction = known.value_or(work.direction);
    return error;
}

int set_work(const SetNode *parameters, Work &work) {
    if (parameters == nullptr) {
        return kInvalidValue;
    }
    const SetNode &set = *parameters;
    if (set.element_bytes != 1 && set.element_bytes != 2 && set.element_bytes != 4) {
        return kInvalidValue;
    }
    work.type = kSetNode;
    work.is_flat = set.height == 1;
    std::size_t span = 0;
    std::size_t bytes = 0;
    if (!measure_set(set.to, set.pitch, set.element_bytes, set.width, set.height, bytes, span) ||
        bytes == 0 || !is_allocated(reinterpret_cast<void *>(set.to), span)) {
        return kInvalidValue;
    }
    work.bytes = bytes;
    return kSuccess;
}

int host_work(const HostNode *parameters, Work &work) {
    if (parameters == nullptr || parameters->function == nullptr) {
        return kInvalidValue;
    }
    work.type = kHostNode;
    work.function = parameters->function;
    work.argument = parameters->argument;
    return kSuccess;
}

int event_work(NodeType type, Event event, Work &work) {
    work.type = type;
    work.event = event;
    return event == nullptr ? kInvalidValue : kSuccess;
}

int child_work(Graph graph, Work &work) {
    const GraphContent *content = graph_of(graph);
    if (content == nullptr) {
        return kInvalidValue;
    }
    if (has_memory(*content)) {
        return kNotSupported;
    }
    work.type = kChildNode;
    work.child = copy_of(*content, false);
    return kSuccess;
}

int allocate_work(AllocateNode *parameters, std::uint64_t context, Work &work) {
    if (parameters == nullptr || parameters->bytes == 0) {
        return kInvalidValue;
    }
    work.type = kAllocateNode;
    work.bytes = parameters->bytes;
    work.memory = std::make_shared<GraphMemory>(parameters->bytes, context);
    parameters->address = reinterpret_cast<DevicePointer>(work.memory->start());
    return parameters->address == 0 ? kMemoryAllocation : kSuccess;
}

int free_work(DevicePointer address, Work &work) {
    work.type = kFreeNode;
    work.memory = graph_memory_at(address);
    return work.memory == nullptr ? kInvalidValue : kSuccess;
}

int any_work(DriverAnyNode *parameters, std::optional<truth::CopyKind> known, std::uint64_t context,
             Work &work) {
    if (parameters == nullptr) {
        return kInvalidValue;
    }
    switch (parameters->type) {
        case kKernelNode:
            return kernel_work(&parameters->of.kernel, work);
        case kCopyNode:
            return copy_work(&parameters->of.copy.copy, known, work);
        case kSetNode:
            return set_work(&parameters->of.set, work);
        case kHostNode:
            return host_work(&parameters->of.host, work);
        case kChildNode:
            return child_work(parameters->of.child.graph, work);
        case kEmptyNode:
            work.type = kEmptyNode;
            return kSuccess;
        case kEventWaitNode:
            return event_work(kEventWaitNode, parameters->of.event, work);
        case kEventRecordNode:
            return event_work(kEventRecordNode, parameters->of.event, work);
        case kAllocateNode:
            return allocate_work(&parameters->of.allocate, context, work);
        case kFreeNode:
            return free_work(parameters->of.free, work);
        default:
            return kNotSupported;
    }
}

}  // namespace standin
