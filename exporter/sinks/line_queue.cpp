#include "exporter/sinks/line_queue.h"

#include <unistd.h>

namespace gpusnoop::sinks {

bool LineQueue::push(std::string_view line) {
    bool was_empty = false;
    {
        const std::lock_guard lock(mutex_);
        if (taken_ + waiting_.size() + line.size() + 1 > max_bytes_) {
            return false;
        }
        was_empty = waiting_.empty();
        waiting_ += line;
        waiting_ += '\n';
    }
    if (was_empty) {
        wake();
    }
    return true;
}

std::string LineQueue::take() {
    const std::lock_guard lock(mutex_);
    std::string taken = std::exchange(waiting_, {});
    taken_ += taken.size();
    return taken;
}

void LineQueue::done(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    taken_ -= bytes;
}

std::size_t LineQueue::bytes() const {
    const std::lock_guard lock(mutex_);
    return taken_ + waiting_.size();
}

// Failures are harmless: a write fails only if the eventfd is readable already, a read only if it
// was cleared.
void LineQueue::wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));
}

void LineQueue::clear() const {
    std::uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof(count));
}

}  // namespace gpusnoop::sinks
