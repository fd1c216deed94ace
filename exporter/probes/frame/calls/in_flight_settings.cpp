#include "exporter/probes/frame/calls/in_flight_settings.h"

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

using namespace std::chrono_literals;

void read_in_flight(config::Section in_flight, config::Config &config) {
    InFlightConfig value;
    in_flight.boolean("enabled", value.enabled);
    in_flight.duration("min_age", value.min_age, 1ms, 24h);
    in_flight.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes
