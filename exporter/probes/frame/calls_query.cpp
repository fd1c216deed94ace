#include "exporter/probes/frame/calls_query.h"

#include "exporter/base/text.h"

namespace gpusnoop::probes {

Result<CallsQuery> read_calls_query(const QueryParameters &parameters) {
    CallsQuery query;
    for (const auto &[name, value] : parameters) {
        if (name == "function") {
            query.function = value;
        } else if (name == "library") {
            query.library = value;
        } else if (name == "comm") {
            query.comm = value;
        } else if (const auto is_one = query.read(name, value); !is_one) {
            return tl::unexpected(is_one.error());
        } else if (!*is_one) {
            return fail(in_quotes(name) +
                        " is not a parameter of this page; it has function, library, comm, pid "
                        "and limit");
        }
    }
    return query;
}

}  // namespace gpusnoop::probes
