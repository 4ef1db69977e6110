// All of Dovetail's public API.
#pragma once

#include "dovetail/backoff.hpp"
#include "dovetail/clock.hpp"
#include "dovetail/error.hpp"
#include "dovetail/handler.hpp"
#include "dovetail/ids.hpp"
#include "dovetail/inbox.hpp"
#include "dovetail/join.hpp"
#include "dovetail/lease.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "dovetail/outbox.hpp"
#include "dovetail/platform.hpp"
#include "dovetail/transaction.hpp"
#include "dovetail/value.hpp"
#include "dovetail/version.hpp"
