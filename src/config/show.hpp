// Texts that are made from the table of settings. None of them contains secrets.
#pragma once

#include <string>

#include "config/load.hpp"

namespace dovetail::config {

/// The effective values as TOML. With `with_origin`, each line says where its value comes from.
[[nodiscard]] std::string shown_toml(const Loaded& loaded, bool with_origin);

/// A configuration file with all defaults, commented out.
[[nodiscard]] std::string example_file();

/// The table of docs/configuration.md.
[[nodiscard]] std::string reference();

/// `environment DOVETAIL_SCHEMA`, `default`
[[nodiscard]] std::string origin_text(const Origin& origin);

}  // namespace dovetail::config
