/* BerkeleyDB 5.3 behind a few functions: its own interface is tables of function pointers inside its structures. */
#include <db.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct bdb {
    DB_ENV *env;
    DB *db;
    u_int64_t logged; /* bytes put since the last checkpoint */
};

enum { CHECKPOINT_BYTES = 256 << 20 };

const char *bdb_message(int code) { return db_strerror(code); }

static int open_env(struct bdb *b, const char *dir) {
    int rc = db_env_create(&b->env, 0);
    if (rc != 0) return rc;
    DB_ENV *env = b->env;
    u_int32_t parts = DB_INIT_LOG | DB_INIT_LOCK | DB_INIT_MPOOL | DB_INIT_TXN | DB_CREATE | DB_PRIVATE | DB_THREAD | DB_RECOVER;
    if ((rc = env->set_cachesize(env, 1, 0, 1)) != 0) return rc;
    if ((rc = env->set_lg_bsize(env, 16u << 20)) != 0) return rc;
    if ((rc = env->set_lg_max(env, 32u << 20)) != 0) return rc;
    if ((rc = env->set_lk_max_locks(env, 200000)) != 0) return rc;
    if ((rc = env->set_lk_max_objects(env, 200000)) != 0) return rc;
    /* A commit has written its log to the operating system, as the other stores' puts have. */
    if ((rc = env->set_flags(env, DB_TXN_WRITE_NOSYNC, 1)) != 0) return rc;
    if ((rc = env->log_set_config(env, DB_LOG_AUTO_REMOVE, 1)) != 0) return rc;
    return env->open(env, dir, parts, 0644);
}

static int open_db(struct bdb *b) {
    int rc = db_create(&b->db, b->env, 0);
    if (rc != 0) return rc;
    if ((rc = b->db->set_pagesize(b->db, 64u << 10)) != 0) return rc;
    return b->db->open(b->db, NULL, "values.db", NULL, DB_BTREE, DB_CREATE | DB_AUTO_COMMIT | DB_THREAD, 0644);
}

int bdb_close(struct bdb *b) {
    int rc = 0, closed;
    if (b->db != NULL) rc = b->db->close(b->db, 0);
    if (b->env != NULL) {
        if (b->db != NULL) b->env->txn_checkpoint(b->env, 0, 0, DB_FORCE);
        closed = b->env->close(b->env, 0);
        if (rc == 0) rc = closed;
    }
    free(b);
    return rc;
}

int bdb_open(const char *dir, struct bdb **out) {
    struct bdb *b = calloc(1, sizeof *b);
    if (b == NULL) return ENOMEM;
    int rc = open_env(b, dir);
    if (rc == 0) rc = open_db(b);
    if (rc != 0) {
        bdb_close(b);
        return rc;
    }
    *out = b;
    return 0;
}

int bdb_put(struct bdb *b, const void *key, u_int32_t key_len, const void *value, u_int32_t value_len, int sync) {
    DBT k = {0}, v = {0};
    DB_TXN *txn;
    k.data = (void *)key, k.size = key_len;
    v.data = (void *)value, v.size = value_len;
    int rc = b->env->txn_begin(b->env, NULL, &txn, 0);
    if (rc != 0) return rc;
    rc = b->db->put(b->db, txn, &k, &v, 0);
    if (rc != 0) {
        txn->abort(txn);
        return rc;
    }
    rc = txn->commit(txn, sync ? DB_TXN_SYNC : DB_TXN_WRITE_NOSYNC);
    b->logged += value_len;
    if (rc == 0 && b->logged >= CHECKPOINT_BYTES) {
        b->logged = 0;
        rc = b->env->txn_checkpoint(b->env, 0, 0, 0);
    }
    return rc;
}

/* 1: no such key. */
int bdb_get(struct bdb *b, const void *key, u_int32_t key_len, void *into, u_int32_t room, u_int32_t *len) {
    DBT k = {0}, v = {0};
    k.data = (void *)key, k.size = key_len;
    v.data = into, v.ulen = room, v.flags = DB_DBT_USERMEM;
    int rc = b->db->get(b->db, NULL, &k, &v, 0);
    *len = v.size;
    return rc == DB_NOTFOUND ? 1 : rc;
}

int bdb_delete(struct bdb *b, const void *key, u_int32_t key_len) {
    DBT k = {0};
    k.data = (void *)key, k.size = key_len;
    return b->db->del(b->db, NULL, &k, DB_AUTO_COMMIT);
}

int bdb_compact(struct bdb *b) {
    int rc = b->db->compact(b->db, NULL, NULL, NULL, NULL, DB_FREE_SPACE, NULL);
    if (rc != 0) return rc;
    /* The second checkpoint is what lets the log before the first one go. */
    if ((rc = b->env->txn_checkpoint(b->env, 0, 0, DB_FORCE)) != 0) return rc;
    if ((rc = b->env->txn_checkpoint(b->env, 0, 0, DB_FORCE)) != 0) return rc;
    return b->env->log_archive(b->env, NULL, DB_ARCH_REMOVE);
}
