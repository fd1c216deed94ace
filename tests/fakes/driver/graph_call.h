// The frame of the functions of graphs.

#pragma once

#include "driver/call.h"
#include "driver/contexts.h"
#include "driver/graph_book.h"

namespace standin {

// In a context, and `action` with the lock of the book held.
template <typename Action>
int graph_call(truth::Function self, Action &&action) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        run_hook(open);
        const auto lock = lock_graphs();
        return action(open);
    });
}

}  // namespace standin
