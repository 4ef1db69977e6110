// The tables of transports in the configuration file: [transports.NAME], [[publish]], [[consume]].
//
// Their keys depend on the kind of the broker (transport/kind.hpp), so they are not in the table of
// settings.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "config/given.hpp"

namespace dovetail::config {

[[nodiscard]] bool is_transport_section(std::string_view key);

/// Adds the mistakes to `values`.
void read_transports(const toml::table& file, const std::string& path, GivenValues& values,
                     FileExtras& extras);

}  // namespace dovetail::config
