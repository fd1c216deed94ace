// The actions of --everything that call the runtime, in several files.

#pragma once

#include "workload/everything.h"
#include "workload/everything/graphs.h"

#include "cudart/cudart.h"

namespace demo {

#define RUNTIME(name)  \
    Named {            \
        #name, &::name \
    }

// Of one thread.
struct RuntimeState {
    standin::Stream stream = nullptr;
    standin::Event start = nullptr;
    standin::Event end = nullptr;
    standin::GraphExec graph = nullptr;
    int devices = 1;
};

inline standin::Stream any_stream(Everything &all, const RuntimeState &state) {
    return all.coin() ? state.stream : nullptr;
}

void add_runtime_copies(Everything &all, const RuntimeState &state);
void add_runtime_launches(Everything &all, const RuntimeState &state);
GraphApi runtime_graphs(Everything &all);

}  // namespace demo
