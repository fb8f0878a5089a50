/*
** sqlite3_backup and sqlite3_serialize where a database is Pando's. SQLite copies pages, and Pando has none, so a hidden
** connection stands in for it, whose database is a temporary file of SQLite's:
**
** 1. From Pando: the hidden file is made by sqlite3_backup_init(), as VACUUM INTO makes one. Its pages are copied.
** 2. To Pando: pages are copied into the hidden file. The step that has copied the last one copies the file's tables into
**    Pando, in one transaction that replaces all tables which SQL made. If that is busy, so is the step, and it can be
**    repeated.
**
** Included by glue.c, whose sqlite3BtreeOpen() and sqlite3BtreeClose() call the first two functions here.
*/

/* Values of PandoHidden.eNext: what VACUUM INTO of a hidden connection opens next. */
#define PANDO_NEXT_ANY  0   /* What its name says */
#define PANDO_NEXT_FILE 1   /* A temporary file, which stays open */
#define PANDO_NEXT_GOAL 2   /* The database on Pando that is replaced */

/* What a hidden connection has. It is the connection's client data. */
struct PandoHidden {
  sqlite3 *db;      /* The hidden connection */
  sqlite3 *pTo;     /* To Pando: the program's connection, which gets the error */
  void *pGoal;      /* To Pando: a state of the database that is replaced */
  Btree *pFile;     /* The temporary file, until it is the database of db */
  u8 eNext;         /* One of the values above */
  u8 isDone;        /* Everything is in Pando */
};

static PandoHidden *pandoHiddenOf(sqlite3 *db){
  return db->pDbData ? (PandoHidden*)sqlite3_get_clientdata(db, "pando-hidden") : 0;
}

/* Opens what a hidden connection has to copy to. Returns 0 if p is not such a connection, or opens something else. */
static int pandoOpenHidden(PandoHidden *p, sqlite3_vfs *pVfs, Btree **ppBtree, int flags, int vfsFlags, int *pRc){
  u8 eNext = p ? p->eNext : PANDO_NEXT_ANY;
  void *pState = 0;
  if( eNext==PANDO_NEXT_ANY ) return 0;
  p->eNext = PANDO_NEXT_ANY;
  *pRc = SQLITE_OK;
  if( eNext==PANDO_NEXT_GOAL ){
    pState = pando_bt_again(p->pGoal, 1, pRc);
    if( *pRc!=SQLITE_OK ) return 1;
  }
  *pRc = stockBtreeOpen(pVfs, pState ? ":memory:" : "", p->db, ppBtree, flags, vfsFlags);
  if( *pRc!=SQLITE_OK ){
    if( pState ) pando_bt_close(pState);
  }else if( pState ){
    pandoTag(*ppBtree, pState);
  }else{
    p->pFile = *ppBtree;
  }
  return 1;
}
/* Returns whether a Btree stays open, although VACUUM INTO closes it. */
static int pandoIsKept(Btree *pBt){
  PandoHidden *p = pandoHiddenOf(pBt->db);
  return p && p->pFile==pBt;
}

static void pandoFreeHidden(void *pArg){
  PandoHidden *p = pArg;
  if( p->pGoal ) pando_bt_close(p->pGoal);
  sqlite3_free(p);
}
/* Returns a new hidden connection. Its database is in memory, or a temporary file if the name is empty. */
static PandoHidden *pandoHide(const char *zName){
  PandoHidden *p = sqlite3MallocZero(sizeof(*p));
  sqlite3 *db;
  if( p==0 ) return 0;
  if( sqlite3_open_v2(zName, &p->db, SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE, 0)!=SQLITE_OK ){
    sqlite3_close(p->db);
    sqlite3_free(p);
    return 0;
  }
  db = p->db;
  /* If it fails, it has called the destructor. */
  if( sqlite3_set_clientdata(db, "pando-hidden", p, pandoFreeHidden)!=SQLITE_OK ){
    sqlite3_close(db);
    return 0;
  }
  return p;
}

/* The order of a collation that a hidden connection does not know. It is in columns alone, where nothing is compared. */
static int pandoNoOrder(void *pArg, int nA, const void *pA, int nB, const void *pB){
  UNUSED_PARAMETER(pArg);
  UNUSED_PARAMETER2(pA, pB);
  return nA-nB;
}
static void pandoNeedsCollation(void *pArg, sqlite3 *db, int eEnc, const char *zName){
  UNUSED_PARAMETER(pArg);
  sqlite3_create_collation_v2(db, zName, eEnc, 0, pandoNoOrder, 0);
}
/*
** Defines what definitions of tables and indexes can need. No row is computed anew, but SQLite refuses a definition whose
** functions and collations are not there.
*/
static int pandoLend(sqlite3 *db, sqlite3 *pFrom){
  HashElem *k;
  int rc = sqlite3_collation_needed(db, 0, pandoNeedsCollation);
  for(k=sqliteHashFirst(&pFrom->aFunc); k && rc==SQLITE_OK; k=sqliteHashNext(k)){
    FuncDef *pDef;
    for(pDef=sqliteHashData(k); pDef && rc==SQLITE_OK; pDef=pDef->pNext){
      /* Aggregates are in no definition of a table or an index. */
      if( pDef->xSFunc==0 || pDef->xFinalize ) continue;
      rc = sqlite3_create_function_v2(db, pDef->zName, pDef->nArg,
          (int)(pDef->funcFlags & (SQLITE_FUNC_ENCMASK|SQLITE_DETERMINISTIC|SQLITE_SUBTYPE)),
          pDef->pUserData, pDef->xSFunc, 0, 0, 0);
    }
  }
  return rc;
}

/* Copies the tables of a hidden connection's database into what eNext says. */
static int pandoCopyHidden(PandoHidden *p, u8 eNext, char **pzError){
  sqlite3 *db = p->db;
  sqlite3_value *pName = sqlite3ValueNew(db);
  int rc = SQLITE_NOMEM;
  if( pName ){
    sqlite3ValueSetStr(pName, -1, "hidden", SQLITE_UTF8, SQLITE_STATIC);
    p->eNext = eNext;
    rc = sqlite3RunVacuum(pzError, db, 0, pName);
    p->eNext = PANDO_NEXT_ANY;
    sqlite3ValueFree(pName);
  }
  return rc;
}

/* Notes a failure where the program looks for it. */
static void pandoFailed(sqlite3 *pTo, int rc, const char *zError){
  sqlite3_mutex_enter(pTo->mutex);
  sqlite3ErrorWithMsg(pTo, rc, "%s", zError ? zError : sqlite3ErrStr(rc));
  sqlite3_mutex_leave(pTo->mutex);
}

/*
** Returns a hidden connection whose database is a copy of one on Pando, as it is now. On failure returns NULL and notes
** why at pTo.
*/
static PandoHidden *pandoCopyOf(void *pFrom, sqlite3 *pProgram, sqlite3 *pTo){
  PandoHidden *p = pandoHide(":memory:");
  char *zError = 0;
  void *pState;
  int rc;
  if( p==0 ){
    pandoFailed(pTo, SQLITE_NOMEM, 0);
    return 0;
  }
  rc = pandoLend(p->db, pProgram);
  sqlite3_mutex_enter(p->db->mutex);
  pState = rc==SQLITE_OK ? pando_bt_again(pFrom, 0, &rc) : 0;
  if( pState ){
    pandoTag(p->db->aDb[0].pBt, pState);
    sqlite3ResetAllSchemasOfConnection(p->db);
    rc = pandoCopyHidden(p, PANDO_NEXT_FILE, &zError);
  }
  if( rc==SQLITE_OK ){
    /* The file takes the place of Pando. */
    Btree *pFile = p->pFile;
    p->pFile = 0;
    sqlite3BtreeClose(p->db->aDb[0].pBt);
    p->db->aDb[0].pBt = pFile;
    p->db->aDb[0].pSchema = sqlite3SchemaGet(p->db, pFile);
    if( p->db->aDb[0].pSchema==0 ) rc = SQLITE_NOMEM;
  }else{
    pandoFailed(pTo, rc, zError);
    if( p->pFile ) stockBtreeClose(p->pFile);
    p->pFile = 0;
  }
  sqlite3DbFree(p->db, zError);
  sqlite3_mutex_leave(p->db->mutex);
  if( rc!=SQLITE_OK ){
    sqlite3_close(p->db);
    p = 0;
  }
  return p;
}

/* Returns the state of a connection's database, or NULL if there is no such database or it is not on Pando. */
static void *pandoNamed(sqlite3 *db, const char *zDb){
  int i = sqlite3FindDbName(db, zDb);
  return i>=0 && db->aDb[i].pBt ? pandoOf(db->aDb[i].pBt) : 0;
}

SQLITE_API sqlite3_backup *sqlite3_backup_init(sqlite3 *pTo, const char *zTo, sqlite3 *pFrom, const char *zFrom){
  PandoHidden *pSource = 0, *pDest = 0;
  sqlite3_backup *b = 0;
  sqlite3_mutex_enter(pFrom->mutex);
  sqlite3_mutex_enter(pTo->mutex);
  if( pTo!=pFrom ){
    void *pState = pandoNamed(pTo, zTo);
    int rc = SQLITE_OK;
    if( pState && pando_bt_txn_state(pState)!=SQLITE_TXN_NONE ){
      pandoFailed(pTo, SQLITE_ERROR, "destination database is in use");
      goto done;
    }
    if( pState ){
      pDest = pandoHide("");
      if( pDest==0 ) rc = SQLITE_NOMEM;
      if( rc==SQLITE_OK ) rc = pandoLend(pDest->db, pTo);
      if( rc==SQLITE_OK ) rc = pandoLend(pDest->db, pFrom);
      if( rc==SQLITE_OK ) pDest->pGoal = pando_bt_again(pState, 0, &rc);
      if( rc!=SQLITE_OK ){
        pandoFailed(pTo, rc, 0);
        goto done;
      }
      pDest->pTo = pTo;
    }
    pState = pandoNamed(pFrom, zFrom);
    if( pState ){
      pSource = pandoCopyOf(pState, pFrom, pTo);
      if( pSource==0 ) goto done;
    }
  }
  b = pando_stock_sqlite3_backup_init(pDest ? pDest->db : pTo, pDest ? "main" : zTo,
                                      pSource ? pSource->db : pFrom, pSource ? "main" : zFrom);
  if( b==0 && pDest ) pandoFailed(pTo, sqlite3_errcode(pDest->db), sqlite3_errmsg(pDest->db));
done:
  sqlite3_mutex_leave(pTo->mutex);
  sqlite3_mutex_leave(pFrom->mutex);
  if( b==0 && pDest ) sqlite3_close(pDest->db);
  if( b==0 && pSource ) sqlite3_close(pSource->db);
  return b;
}

SQLITE_API int sqlite3_backup_step(sqlite3_backup *b, int nPage){
  PandoHidden *p = pandoHiddenOf(b->pDestDb);
  char *zError = 0;
  int rc = pando_stock_sqlite3_backup_step(b, nPage);
  if( p==0 || p->isDone ) return rc;
  if( rc==SQLITE_DONE ){
    sqlite3_mutex_enter(p->db->mutex);
    rc = pandoCopyHidden(p, PANDO_NEXT_GOAL, &zError);
    if( rc==SQLITE_OK ){
      p->isDone = 1;
      rc = SQLITE_DONE;
    }else if( (rc & 0xff)==SQLITE_BUSY ){
      rc = SQLITE_BUSY;
    }else{
      b->rc = rc;
    }
    sqlite3_mutex_leave(p->db->mutex);
  }
  if( rc!=SQLITE_OK && rc!=SQLITE_DONE ) pandoFailed(p->pTo, rc, zError);
  sqlite3DbFree(p->db, zError);
  return rc;
}

SQLITE_API int sqlite3_backup_finish(sqlite3_backup *b){
  PandoHidden *pSource = b ? pandoHiddenOf(b->pSrcDb) : 0;
  PandoHidden *pDest = b ? pandoHiddenOf(b->pDestDb) : 0;
  int rc = pando_stock_sqlite3_backup_finish(b);
  /* The message of a failure stays. */
  if( pDest && rc==SQLITE_OK ) pandoFailed(pDest->pTo, rc, 0);
  if( pDest ) sqlite3_close(pDest->db);
  if( pSource ) sqlite3_close(pSource->db);
  return rc;
}

SQLITE_API unsigned char *sqlite3_serialize(sqlite3 *db, const char *zSchema, sqlite3_int64 *pnByte, unsigned int mFlags){
  unsigned char *pOut = 0;
  void *pState;
  sqlite3_mutex_enter(db->mutex);
  pState = pandoNamed(db, zSchema ? zSchema : "main");
  if( pState==0 ){
    pOut = pando_stock_sqlite3_serialize(db, zSchema, pnByte, mFlags);
  }else{
    PandoHidden *p = 0;
    if( pnByte ) *pnByte = -1;
    /* There is never a contiguous copy in memory that could be returned as it is. */
    if( (mFlags & SQLITE_SERIALIZE_NOCOPY)==0 ) p = pandoCopyOf(pState, db, db);
    if( p ){
      pOut = pando_stock_sqlite3_serialize(p->db, "main", pnByte, mFlags);
      sqlite3_close(p->db);
    }
  }
  sqlite3_mutex_leave(db->mutex);
  return pOut;
}
