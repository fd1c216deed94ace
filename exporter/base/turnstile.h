// Lets so many in at a time, and turns the others away instead of having them wait.
#pragma once

#include <atomic>
#include <memory>

namespace gpusnoop {

// For any thread.
class Turnstile {
    struct Leave {
        void operator()(Turnstile *turnstile) const { turnstile->inside_--; }
    };

public:
    explicit Turnstile(int most) : most_(most) {}

    // Null if as many are in. Else one more is, until this is destroyed, which must be before the
    // turnstile is.
    using Pass = std::unique_ptr<Turnstile, Leave>;
    [[nodiscard]] Pass enter() {
        int inside = inside_;
        do {
            if (inside >= most_) {
                return nullptr;
            }
        } while (!inside_.compare_exchange_weak(inside, inside + 1));
        return Pass(this);
    }

private:
    const int most_;
    std::atomic<int> inside_ = 0;
};

}  // namespace gpusnoop
