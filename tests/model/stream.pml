/*
 * Commit, lease, fencing, pins, retention and collecting of a Deltawire stream. See README.md beside this file.
 *
 * One step of a process (an atomic block) is at most one look at the store, or one change of it, with the computing
 * around it. Between two steps a process may stall for any time, or for ever, which is a crash. Identifiers such as
 * CMT-6 are those of SPEC.md. #ifdef marks variants: each drops or changes one rule, and test_model.py says what must
 * fail then.
 *
 * Time. There are no clocks. What a rule lets a process conclude from a clock is an event that may happen whenever a
 * real clock could say so:
 * - Another writer may take the lease at any time. That is the operator's right (LSE-4), and includes whatever an
 *   observer may conclude from a ttl (LSE-6). The holder never looks at its lease before it commits, which is the worst
 *   that LSE-8 to LSE-10 leave possible: it may stall right after a look. So all holds without those rules.
 * - A maintainer may conclude at any time that a reader is gone (PIN-8), which sets `gone`. It saw the pin unchanged for
 *   more than a ttl, so more than a ttl has passed since its owner sent the last write that took place; therefore the
 *   owner knows, whenever it looks at its own clock after that (PIN-6), and may stall right after the look.
 * A look at a record and the look at retention.json that follows it are one step here. Nothing is lost: the boundary
 * only rises, so what passes the later look passes the earlier one, and going on later is a stall in between.
 */

#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef PINS
#define PINS 1 /* whether the reader pins; one that may not write cannot */
#endif
#ifndef MAINTAINERS
#define MAINTAINERS 1
#endif
/* How often writer 0 and writer 1 open the stream at most, and how many versions they try to publish in all. */
#ifndef BUDGET_0
#define BUDGET_0 1
#endif
#ifndef BUDGET_1
#define BUDGET_1 2
#endif

#ifndef VERSIONS
#define VERSIONS 3 /* 3 or 4; version 0 is there from the beginning */
#endif
#define LAST (VERSIONS - 1)
#ifndef DELAYS
#define DELAYS(w) (w == WRITERS - 1) /* whose puts may arrive long after their sender gave up */
#endif
#define BUDGET(w) (w == 0 -> BUDGET_0 : BUDGET_1)
#define COMMITS (2 + BUDGET_0 + BUDGET_1)
#define NONE 0
#define INITIAL 1 /* the commit id of version 0 */

/* Properties. The number stands in the message of the assertion that fails; test_model.py finds the name here. */
#define PARENT 1     /* the parent of a version is the version before it */
#define EPOCH 2      /* epochs do not fall along the line (CHN-2) */
#define ONE_EPOCH 3  /* versions of one epoch are of one writer */
#define LINEAR 4     /* as long as a version is retained its record is there, and always the same */
#define COMPLETE 5   /* what the record of a retained version names is there */
#define REACHABLE 6  /* the version at the boundary has a snapshot (RET-2) */
#define BOUNDARY 7   /* the boundary does not fall (RET-1) */
#define COMMITTED 8  /* a version that its writer reports as committed is in the line */
#define LOST 9       /* a version that its writer reports as lost (conflict, fenced) is not, and never was */
#define NEWEST 10    /* a version that is taken for the newest was the newest when the next was looked for */
#define SHOWN 11     /* a reader holds nothing but versions of the line, a writer builds on nothing else */
#define FORWARD 12   /* a reader does not go back (FOL-1) */
#define PINNED 13    /* what a confirmed pin covers is there as long as the pin's owner is not known to be gone */
#define SOUND 14     /* a reader does not report broken_chain on a sound line */
#ifdef ONLY /* look at one property alone */
#define HOLDS(property, condition) assert((condition) || property != ONLY)
#else
#define HOLDS(property, condition) assert((condition) || property == 0)
#endif

/* The store. Commit ids are small numbers; data folders bear the number of their commit. */
byte record[VERSIONS + 1];  /* versions/<N>.json: a commit id, or NONE; the last stays free */
byte number[COMMITS];       /* what the record of a commit says: its version, */
byte parent[COMMITS];       /*   the commit id of the version before, */
byte epoch_of[COMMITS];     /*   the epoch, counted from 1, */
byte file_of[COMMITS];      /*   and whose data folder its auxiliary file is in: its own, or as its parent's. KEY-9 */
bool part[COMMITS];         /* the parts of a commit are there */
bool file[COMMITS];         /* its own auxiliary file is there */
byte anchor[VERSIONS];      /* anchors/<N>.json: 1 + the maintainer that made it, or NONE */
bool shard[VERSIONS * MAINTAINERS]; /* the shards that a maintainer made for an anchor are there */
byte boundary;              /* retention.json */
bool kept;                  /*   whether version 0 is kept below the boundary */
byte lease_epoch = 1;       /* leases/writer.json: its epoch, */
byte lease_holder = 255;    /*   and its holder */
bool pin_there;             /* the pin under the id that the reader uses now */
byte pin_first;             /*   and its `first`. It has no `last`. */

/* Not in the store. */
byte line[VERSIONS + 1];    /* the line as it came about: which commit was the first of each number. Never forgotten. */
byte sent[WRITERS];         /* a put(create) of this commit is on its way and may arrive at any time, or never */
byte working_on[WRITERS];   /* the commit that a writer has in hand */
#ifdef REMOVED_LEASE
bool lease_removed;         /* an operator removed the lease; it happens once. LSE-2 */
#endif
bool gone;                  /* the reader was seen unchanged for a ttl. PIN-8 */
#ifdef REUSE_PIN_ID
bool condemned;             /* a maintainer is about to delete the pin. PIN-10 */
#endif
bool created;               /* the answer of arrive() */

hidden byte i; /* for loops within one step */

#define RETAINED(n) ((n) >= boundary || ((n) == 0 && kept)) /* RET-1 */
#define SHARD(n, a) shard[(n) * MAINTAINERS + (a) - 1]
#define OWNER(c) (c >= 2 + BUDGET_0) /* the writer */

/* What must hold of the store after every change. */
inline check_store()
{
    i = 0;
    do
    :: i < VERSIONS ->
        if
        :: line[i] != NONE && RETAINED(i) ->
            HOLDS(LINEAR, record[i] == line[i]);
            HOLDS(COMPLETE, part[line[i]] && file[file_of[line[i]]])
        :: else
        fi;
        i++
    :: else -> break
    od;
    HOLDS(REACHABLE, boundary == 0 || (anchor[boundary] != NONE && SHARD(boundary, anchor[boundary])));
    i = 0
}

/* put(create) of the record of commit c takes place in the store. CMT-2 */
inline arrive(c)
{
    d_step {
#ifdef NO_CREATE_CONDITION
        created = true;
#else
        created = record[number[c]] == NONE;
#endif
        if
        :: created ->
            record[number[c]] = c;
            if
            :: line[number[c]] == NONE ->
                HOLDS(PARENT, line[number[c] - 1] == parent[c]);
                HOLDS(EPOCH, epoch_of[c] >= epoch_of[parent[c]]);
                HOLDS(ONE_EPOCH, epoch_of[c] > epoch_of[parent[c]] || OWNER(c) == OWNER(parent[c]));
                line[number[c]] = c;
                epoch_of[parent[c]] = 0 /* not asked for again */
            :: else /* a number that was collected: check_store() asserts that the boundary is above it */
            fi;
            check_store()
        :: else
        fi
    }
}

/* What has no record, never had one and gets none is debris: no property looks at it. This keeps the search small. */
#define TRAVELS(c) (sent[0] == c || sent[WRITERS - 1] == c)
inline forget(c)
{
    d_step {
        if
        :: c != NONE && record[number[c]] != c && line[number[c]] != c && !TRAVELS(c) ->
            number[c] = 0; parent[c] = NONE; epoch_of[c] = 0; file_of[c] = NONE; part[c] = false; file[c] = false
        :: else
        fi
    }
}

/* ---------------------------------------------------------------------------------------------------- Writers -- */

/* What 11.4 may find, wherever the search began, as a head may say anything: version k is there, the next is not. */
#ifdef NO_BOUNDARY_WHEN_FINDING
#define NEWEST_MAY_BE(k) (record[k] != NONE && record[k + 1] == NONE && RETAINED(k))
#else
#define NEWEST_MAY_BE(k) (record[k] != NONE && record[k + 1] == NONE && k >= boundary) /* LAT-5 */
#endif

/* Stores the parts of the next version and forms its record (11.2). */
inline encode()
{
    c = 2 + (w == 0 -> 0 : BUDGET_0) + used;
    used++; n++;
    working_on[w] = c;
    number[c] = n; parent[c] = base; epoch_of[c] = epoch; base = NONE;
    if
    :: used == BUDGET(w) -> epoch = 0
    :: else
    fi;
#ifdef NAMES_OLD_OBJECTS
    file_of[c] = (n == 1 -> c : INITIAL); file[INITIAL] = true; /* one of that content: created now, or there already */
#else
    file_of[c] = (n == 2 -> c : file_of[parent[c]]); /* version 2 has a new file, others their parent's. KEY-9 */
#endif
#ifndef RECORD_BEFORE_PARTS
    part[c] = true; /* CMT-1 */
    if
    :: file_of[c] == c -> file[c] = true
    :: else
    fi
#endif
}

/* The end of a session; in the next one it opens the stream anew, with nothing in memory. OPN-5 */
inline end_session()
{
    forget(c);
    working_on[w] = NONE; epoch = 0; above = 0; base = NONE; n = 0; c = NONE; unsure = false; again = false;
    if
    :: used == BUDGET(w) || opened == BUDGET(w) -> used = 0; opened = 0; goto done
    :: else -> goto open
    fi
}

inline publish_next() /* PUB-8 */
{
#ifdef RECORD_BEFORE_PARTS
    part[c] = true; file[file_of[c]] = true;
#endif
    if
    :: used == BUDGET(w) || n == LAST -> opened = BUDGET(w); end_session()
    :: else -> base = c; unsure = false; again = false; encode(); goto create
    fi
}

proctype Writer(byte w)
{
    byte epoch, above, base, n, c, used, opened;
    bool unsure; /* an attempt at this commit may have arrived unnoticed */
    bool again;  /* this is not the first attempt */

open:
    atomic { /* LSE-4, LSE-5. Reading and replacing the lease are one step: replace-if fails if it changed. */
        opened++;
        if
#ifdef NO_EPOCH_RISE
        :: true
#else
        :: lease_epoch++
#endif
#ifdef REMOVED_LEASE
        :: !lease_removed -> lease_removed = true; lease_epoch = 1 /* LSE-2 */
#endif
        fi;
        lease_holder = w; epoch = lease_epoch
    }
    atomic { /* OPN-4 */
        if
        :: NEWEST_MAY_BE(0) -> n = 0
        :: NEWEST_MAY_BE(1) -> n = 1
        :: NEWEST_MAY_BE(2) -> n = 2
#if VERSIONS > 3
        :: NEWEST_MAY_BE(3) -> n = 3
#endif
        fi;
        base = record[n];
        HOLDS(NEWEST, line[n + 1] == NONE);
        HOLDS(SHOWN, line[n] == base);
        if
        :: n == LAST -> opened = BUDGET(w); end_session() /* the model ends here */
#ifndef NO_EPOCH_CHECK
        :: n < LAST && epoch_of[base] >= epoch -> above = epoch_of[base] + 1; goto raise /* LSE-7 */
#endif
        :: else -> encode(); goto create
        fi
    }
#ifndef NO_EPOCH_CHECK
raise:
    atomic { /* LSE-7: write the lease again, with an epoch above that of the line */
        if
        :: lease_holder == w && lease_epoch == epoch -> epoch = above; above = 0; lease_epoch = epoch; encode()
        :: else -> end_session() /* fenced */
        fi
    }
#endif
create:
    atomic { /* CMT-2, CMT-3 */
        if
        :: arrive(c);
            if
            :: created -> created = false; goto recheck
            :: !created -> goto read_back /* object_exists. CMT-5 */
            :: created = false; unsure = true; goto read_back /* the answer is lost. CMT-4 */
            fi
        :: DELAYS(w) && sent[w] == NONE -> sent[w] = c; unsure = true /* no answer; it arrives later, or never */
        :: DELAYS(w) && sent[w] != NONE -> unsure = true /* no answer; an earlier one is still on its way */
        :: end_session() /* a crash */
        fi
    }
read_back:
    atomic { /* CMT-6 */
#ifdef LOST_ANSWER_IS_LOSS
        if
        :: unsure -> HOLDS(LOST, line[n] != c); end_session()
        :: else
        fi;
#endif
        if
        :: record[n] == c -> goto recheck
        :: record[n] != c && record[n] != NONE -> /* the race is lost. CMT-8 */
#ifndef LOST_RACE_WITHOUT_BOUNDARY
            if
            :: unsure && n < boundary -> end_session() /* outcome_unknown: ours may have been there, and collected */
            :: else
            fi;
#endif
            HOLDS(LOST, line[n] != c);
            end_session()
        :: record[n] == NONE && !again -> again = true; goto create
        :: true -> /* no answer, or no object in the end: outcome_unknown. Or a crash. */
#ifdef UNKNOWN_IS_BASE
            publish_next()
#else
            end_session() /* CMT-9, OPN-5 */
#endif
        fi
    }
recheck:
    atomic { /* CMT-11 */
        if
#ifndef NO_BOUNDARY_RECHECK
        :: n < boundary -> /* outcome_unknown: in the line and collected since, or created after it was collected */
#ifdef BELOW_BOUNDARY_IS_LOST
            HOLDS(LOST, line[n] != c);
#endif
            end_session()
#endif
        :: else -> HOLDS(COMMITTED, line[n] == c); publish_next()
        fi
    }
done:
}

/* What was sent without an answer arrives at last. */
proctype Network()
{
    byte c;
end:
    do
    :: atomic {
        sent[0] != NONE -> c = sent[0]; arrive(c); sent[0] = NONE; created = false;
        if
        :: working_on[0] != c -> forget(c)
        :: else
        fi;
        c = NONE }
#if WRITERS > 1
    :: atomic {
        sent[1] != NONE -> c = sent[1]; arrive(c); sent[1] = NONE; created = false;
        if
        :: working_on[1] != c -> forget(c)
        :: else
        fi;
        c = NONE }
#endif
    od
}

/* ----------------------------------------------------------------------------------------------------- Reader -- */

/* What the pin keeps: what was retained when it was confirmed, from `first` on. PIN-4 */
#define COVERED(v) (pinned && !gone && (v) >= pin_first && ((v) >= seen || (v) == pin_first))

/*
 * PIN-3, under a new id unless the pin in hand is good. What is left under an old id can only keep more, and its
 * deletion (PIN-10) touches no other: both are left out, and so is the id.
 */
inline write_pin(v)
{
    pin_there = true; pin_first = v; gone = false; seen = 0
}

/* CHN-1. CHN-2 cannot fail either then, as EPOCH holds along the line. */
inline check_chain()
{
    d_step {
        i = held + 1;
        do
        :: i <= n ->
            HOLDS(SOUND, parent[way[i]] == (i == held + 1 -> shown : way[i - 1]));
            i++
        :: else -> break
        od;
        i = 0
    }
}

inline clear_way()
{
    way[0] = NONE; way[1] = NONE; way[2] = NONE; way[LAST] = NONE
}

/* LAT-4 and LAT-5 for a reader that holds a version, and what it checks before the first step. */
inline look_for_next()
{
    if
    :: record[n + 1] != NONE -> n++; way[n] = record[n]; goto look /* LAT-4; the search reads the records, too */
    :: else
    fi;
    HOLDS(PINNED, line[n + 1] == NONE || !COVERED(n + 1));
    if
    :: n == held -> /* nothing newer? */
#ifdef NO_BOUNDARY_WHEN_FINDING
        if
        :: record[held] == NONE -> goto snapshot
        :: else
        fi;
#else
        if
#ifdef PIN_SPARES_BOUNDARY_BELOW_SEEN
        :: pinned && !gone && held + 1 >= pin_first
#else
        :: pinned && !gone && held + 1 >= pin_first && held + 1 >= seen /* the boundary need not be read. LAT-5 */
#endif
        :: held < boundary -> goto snapshot /* LAT-5 */
        :: else
        fi;
#endif
        HOLDS(NEWEST, line[n + 1] == NONE);
        goto poll
    :: else
    fi;
#ifdef CHAIN_BEFORE_BOUNDARY
    check_chain();
#endif
#ifndef NO_RETENTION_READ
    if
    :: held + 1 < boundary -> goto snapshot /* RET-3 */
    :: else
    fi;
#endif
    check_chain();
    to = n; n = 0;
    if
    :: goto apply
    :: goto snapshot /* a cheaper way. PLN-1 */
    fi
}

proctype Reader()
{
    byte held;                /* the version held: 0 at first */
    byte shown = INITIAL;     /*   and the commit that it is */
    byte way[VERSIONS + 1];   /* records read: commit ids */
    byte n, to, maker;
    bool pinned;              /* the pin is confirmed */
    byte seen;                /*   the boundary at that moment, 0 if it was not above `first` */

poll:
    atomic {
        n = 0; to = 0; maker = NONE; clear_way();
        if
        :: pinned && gone -> /* a look at the own clock. PIN-6 */
#ifdef NO_PIN_EXPIRY
            pin_there = true; gone = false
#else
            pinned = false; seen = 0; pin_first = 0; pin_there = false; gone = false
#endif
        :: else
        fi;
        n = held;
#if PINS
        if
        :: !pinned -> write_pin(held); goto confirm
        :: pinned && held > pin_first -> pin_first = held; seen = (seen > held -> seen : 0) /* PIN-5 */
#ifdef PIN_FIRST_FALLS
        :: pinned && held < pin_first -> pin_first = held
#endif
        :: else
        fi;
#endif
        look_for_next()
    }
look:
    atomic { look_for_next() }
apply:
    atomic { /* FOL-3: one step of the way */
        if
        :: part[way[held + 1]] && file[file_of[way[held + 1]]] ->
            held++; shown = way[held]; way[held] = NONE;
            HOLDS(SHOWN, line[held] == shown);
            if
            :: held < to -> goto apply
            :: else -> goto poll
            fi
        :: else -> HOLDS(PINNED, !COVERED(held + 1)) /* PLN-5: plan again */
        fi
    }
snapshot:
    atomic { /* PLN-3: list anchors, take one of them */
        n = 0; to = 0; clear_way();
        if
#ifdef BACKWARDS
        :: anchor[1] != NONE -> n = 1
        :: anchor[2] != NONE -> n = 2
#else
        :: anchor[1] != NONE && held < 1 -> n = 1 /* FOL-1 */
        :: anchor[2] != NONE && held < 2 -> n = 2
#if VERSIONS > 3
        :: anchor[3] != NONE && held < 3 -> n = 3
#endif
#endif
        :: else -> goto poll
        fi;
        maker = anchor[n];
        if
        :: pinned
#if PINS
        :: else -> write_pin(n); goto confirm_snapshot
#else
        :: else /* PIN-7 */
#endif
        fi
    }
read:
    atomic {
        if
        :: record[n] == NONE -> HOLDS(PINNED, !COVERED(n)); goto poll
        :: else -> way[n] = record[n]
        fi;
#ifndef NO_RETENTION_READ
        if
        :: !RETAINED(n) -> goto poll /* RET-3 */
        :: else
        fi
#endif
    }
    atomic {
        if
        :: SHARD(n, maker) ->
            HOLDS(FORWARD, n >= held);
            held = n; shown = way[n];
            HOLDS(SHOWN, line[held] == shown)
        :: else -> HOLDS(PINNED, !COVERED(n)) /* PLN-5: plan again */
        fi;
        goto poll
    }
confirm:
    atomic { /* PIN-4 */
        if
#ifdef PIN_WITHOUT_CONFIRM
        :: pinned = true
#else
        :: RETAINED(held) || RETAINED(held + 1) -> pinned = true; seen = (boundary > pin_first -> boundary : 0)
        :: else -> goto snapshot
#endif
        fi;
        goto look
    }
confirm_snapshot:
    atomic { /* PIN-4 */
        if
#ifdef PIN_WITHOUT_CONFIRM
        :: pinned = true
#else
        :: RETAINED(n) -> pinned = true; seen = (boundary > pin_first -> boundary : 0)
        :: else -> goto poll
#endif
        fi;
        goto read
    }
}

/* ------------------------------------------------------------------------------------------------- Maintainers -- */

/* Whether version v stays, and whether the record of one that stays names the file of commit f. COL-4, COL-5 */
#define STAYS(v) ((v) >= b || ((v) == 0 && k) || (v) >= protected)
#define NAMES(v, f) (record[v] != NONE && STAYS(v) && file_of[record[v]] == (f))
#ifdef NO_LOOK_AT_WHAT_STAYS
#define NAMED(f) false
#else
#ifdef ONLY_NEXT_THAT_STAYS
#define NAMED(f) (STAYS(n + 1) -> NAMES(n + 1, f) : NAMES(n + 2, f))
#else
#define NAMED(f) (NAMES(0, f) || NAMES(1, f) || NAMES(2, f) || NAMES(LAST, f))
#endif
#endif

/* A reader that is not known to be gone keeps all from `first` on; or it is found to be gone. PIN-8 */
inline list_pin()
{
    protected = VERSIONS;
    if
#ifdef PIN_NOT_HEEDED
    :: pin_there
#else
    :: pin_there && !gone -> protected = pin_first
#endif
    :: pin_there -> gone = true
#ifdef REUSE_PIN_ID
        ; condemned = true
#endif
    :: !pin_there
    fi
}

/* Commit c has parts for version n, and no record. */
#define ORPHAN(c) (c < COMMITS && number[c] == n && part[c] && record[n] != c)

/* The next version to collect; if there is none the pass is over. COL-4 */
inline find_next()
{
    do
    :: n < b && (STAYS(n) || (record[n] == NONE && anchor[n] == NONE)) -> n++
    :: else -> break
    od;
    if
    :: n >= b -> b = 0; n = 0; k = false; protected = 0; goto end_pass
    :: else
    fi
}

proctype Maintainer(byte m)
{
    byte b, to, n;
    bool k, orphans;
    byte protected; /* from here on versions are in the range of a pin */
#if MAINTAINERS > 1
    bool used[VERSIONS];
#endif
#ifdef ORPHANS_BY_AGE
    byte old;
#endif

end_pass:
    atomic { /* COL-1, COL-2. The pins do not hold the boundary back here, as it is COL-4 that makes them safe. */
        b = boundary; k = kept;
        if
#ifdef REUSE_PIN_ID
        :: condemned -> condemned = false; pin_there = false; goto end_pass /* PIN-10 */
#endif
        :: b < 1 && record[1] != NONE -> to = 1
        :: b < 2 && record[2] != NONE -> to = 2
#if VERSIONS > 3
        :: b < 3 && record[3] != NONE -> to = 3
#endif
        :: k -> to = b /* version 0 is kept no longer */
        :: b > 0 -> list_pin(); find_next(); goto collect /* as it is. COL-4 */
#ifdef ORPHANS_OF_NEXT
        :: record[1] == NONE ->
            d_step {
                i = 2;
                do
                :: i < COMMITS -> part[i] = false; i++
                :: else -> break
                od
            };
            goto end_pass
#endif
#ifdef ORPHANS_BY_AGE /* COL-7: the folder of an anchor under way that has taken longer than the grace period */
        :: b <= 1 && SHARD(1, 2 - m) && anchor[1] == NONE -> old = 1; goto delete_orphans
        :: b <= 2 && SHARD(2, 2 - m) && anchor[2] == NONE -> old = 2; goto delete_orphans
#endif
        fi;
#ifdef NO_SECOND_PIN_LISTING
        list_pin();
#endif
#if MAINTAINERS == 1 && !defined(BOUNDARY_WITHOUT_SNAPSHOT)
        if
        :: to > 0 && anchor[to] == NONE -> SHARD(to, m + 1) = true; anchor[to] = m + 1 /* COL-2 */
        :: else
        fi
#endif
    }
#if MAINTAINERS > 1
    atomic { /* 11.12. A folder is used once. KEY-4 */
        if
        :: to == b || anchor[to] != NONE -> goto check
        :: to > b && anchor[to] == NONE && !used[to] -> used[to] = true; SHARD(to, m + 1) = true
        :: else -> to = 0; goto end_pass
        fi
    }
    atomic {
        if
        :: anchor[to] == NONE -> anchor[to] = m + 1
        :: else -> SHARD(to, m + 1) = false /* ANC-4 */
        fi
    }
#ifdef ORPHANS_BY_AGE
    atomic { /* MNT-3 */
        if
        :: anchor[to] == m + 1 && !SHARD(to, m + 1) -> anchor[to] = NONE
        :: else
        fi
    }
#endif
check:
    atomic { /* COL-2 */
        if
        :: to == b
        :: to > b && anchor[to] != NONE && SHARD(to, anchor[to])
        :: else -> to = 0; goto end_pass
        fi
    }
#endif
    atomic { /* COL-3, RET-5 */
        if
#ifdef NO_SWAP
        :: true ->
#else
        :: boundary == b && kept == k ->
#endif
            HOLDS(BOUNDARY, to >= boundary);
            if
            :: to > b && (b == 0 || k) -> k = true /* version 0 is kept, or stays kept. COL-2 */
            :: k = false
            fi;
            boundary = to; kept = k; b = to; to = 0;
            d_step { check_store() }
        :: else -> to = 0; goto end_pass
        fi
    }
    atomic { /* COL-4 */
#ifndef NO_SECOND_PIN_LISTING
        list_pin();
#endif
        find_next()
    }
collect:
    atomic { /* COL-5: objects first; orphans of such versions with them, or in a later pass. COL-7 */
        if
        :: orphans = false
        :: ORPHAN(2) || ORPHAN(3) || ORPHAN(4) -> orphans = true
        fi;
        d_step {
            i = 1;
            do
            :: i < COMMITS ->
                if
                :: record[n] == i || (orphans && number[i] == n) -> part[i] = false
                :: else
                fi;
                if
                :: (number[i] == n || file_of[record[n]] == i) && !NAMED(i) -> file[i] = false
                :: else
                fi;
                i++
            :: else -> break
            od;
            i = 1;
            do
            :: i <= MAINTAINERS -> SHARD(n, i) = false; i++
            :: else -> break
            od;
            check_store()
        };
        orphans = false
    }
    atomic { /* then the records */
        anchor[n] = NONE; record[n] = NONE;
        d_step { check_store() };
        find_next();
        goto collect
    }
#ifdef ORPHANS_BY_AGE
delete_orphans:
    atomic { SHARD(old, 2 - m) = false; old = 0; d_step { check_store() }; goto end_pass }
#endif
}

init {
    atomic {
        record[0] = INITIAL; line[0] = INITIAL; part[INITIAL] = true; file[INITIAL] = true;
        file_of[INITIAL] = INITIAL; epoch_of[INITIAL] = 1;
        run Network();
        run Writer(0);
#if WRITERS > 1
        run Writer(1);
#endif
        run Maintainer(0);
#if MAINTAINERS > 1
        run Maintainer(1);
#endif
#if READERS > 0
        run Reader()
#endif
    }
}
