// What a SQLSTATE means to us. The one place where PostgreSQL's failures are classified.
#pragma once

#include <string>
#include <string_view>

#include "dovetail/error.hpp"

namespace dovetail::postgres {

/// `sqlstate` is empty when the server said nothing: the connection broke.
/// `decides` tells that the statement decides over the transaction's fate: a COMMIT, or a statement
/// outside one.
[[nodiscard]] ErrorKind classify(std::string_view sqlstate, bool decides);

}  // namespace dovetail::postgres
