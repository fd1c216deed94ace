// What the parameters of a node come to. All of these return an error code, and are called with the
// lock of the book held.

#pragma once

#include "driver/graph_book.h"

#include <optional>

namespace standin {

// The checks that a launch has, too.
int kernel_work(const DriverKernelNode *parameters, Work &work);
int kernel_work(const DriverKernelNode2 *parameters, Work &work);
// `known` is the direction where a caller knows better than the addresses.
int copy_work(const DriverCopy3D *copy, std::optional<truth::CopyKind> known, Work &work);
int set_work(const SetNode *parameters, Work &work);
int host_work(const HostNode *parameters, Work &work);
int event_work(NodeType type, Event event, Work &work);

int child_work(Graph graph, Work &work);
int allocate_work(AllocateNode *parameters, std::uint64_t context, Work &work);
int free_work(DevicePointer address, Work &work);
// Of cuGraphAddNode and its like.
int any_work(DriverAnyNode *parameters, std::optional<truth::CopyKind> known, std::uint64_t context,
             Work &work);

}  // namespace standin
