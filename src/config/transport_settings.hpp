// Routes and sources of the configuration file and of the command.
#pragma once

#include "config/settings.hpp"

namespace dovetail::config {

// `given` has the values that all kinds share. These throw std::invalid_argument for values that
// cannot work. They do not connect.

[[nodiscard]] PublishSettings publish_settings(const transport::Kind& kind,
                                               const transport::Settings& given,
                                               const transport::Settings& broker);
[[nodiscard]] ConsumeSettings consume_settings(const transport::Kind& kind,
                                               const transport::Settings& given,
                                               const transport::Settings& broker);

/// Registers them, before the start.
void add_transports(const TransportSettings& settings, Platform& platform);

}  // namespace dovetail::config
