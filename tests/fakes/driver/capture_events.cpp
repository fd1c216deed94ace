// Events, by which other streams join a capture.

#include "driver/captures.h"
#include "driver/contexts.h"

namespace standin {

std::optional<int> capture_record(const OnStream &on, Event event, bool external) {
    if (!captures_exist()) {
        return std::nullopt;
    }
    const auto lock = lock_graphs();
    const StreamKey key = key_of(on);
    if (is_legacy(key)) {
        if (const int error = forbidden_in_legacy(current_context().id); error != kSuccess) {
            return error;
        }
    }
    Capture *capture = capture_of(key);
    if (capture == nullptr) {
        captures().events.erase(event);
        count_watched();
        return std::nullopt;
    }
    if (capture->invalid) {
        return kCaptureInvalidated;
    }
    if (external) {
        Work work;
        work.type = kEventRecordNode;
        work.event = event;
        add(*capture, key, std::move(work));
    } else {
        captures().events[event] = {capture->id, capture->streams.at(key)};
        count_watched();
    }
    return kSuccess;
}

std::optional<int> capture_wait(const OnStream &on, Event event, bool external) {
    if (!captures_exist()) {
        return std::nullopt;
    }
    const auto lock = lock_graphs();
    const StreamKey key = key_of(on);
    Capture *capture = capture_of(key);
    if (capture != nullptr && capture->invalid) {
        return kCaptureInvalidated;
    }
    if (external && capture != nullptr) {
        Work work;
        work.type = kEventWaitNode;
        work.event = event;
        add(*capture, key, std::move(work));
        return kSuccess;
    }
    const auto found = captures().events.find(event);
    if (found == captures().events.end()) {
        return capture == nullptr ? std::nullopt
                                  : std::optional<int>(invalidate(*capture, kCaptureIsolation));
    }
    const auto of = captures().by_id.find(found->second.capture);
    if (of == captures().by_id.end()) {  // which is over
        return capture == nullptr ? static_cast<int>(kCapturedEvent)
                                  : invalidate(*capture, kCapturedEvent);
    }
    if (of->second.invalid) {
        return kCaptureInvalidated;
    }
    if (is_legacy(key)) {
        return invalidate(of->second, kCaptureImplicit);
    }
    if (capture != nullptr && capture->id != of->first) {
        invalidate(of->second, kCaptureMerge);
        return invalidate(*capture, kCaptureMerge);
    }
    join(of->second, key, found->second.nodes);
    return kSuccess;
}

int forbidden_to_wait(Event event) {
    if (!captures_exist()) {
        return kSuccess;
    }
    const auto lock = lock_graphs();
    const auto found = captures().events.find(event);
    if (found == captures().events.end()) {
        return kSuccess;
    }
    const auto of = captures().by_id.find(found->second.capture);
    return of == captures().by_id.end() ? static_cast<int>(kCapturedEvent)
                                        : invalidate(of->second, kCapturedEvent);
}

void forget_event(Event event) {
    if (captures_exist()) {
        const auto lock = lock_graphs();
        captures().events.erase(event);
        count_watched();
    }
}

}  // namespace standin
